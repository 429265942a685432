/**
 * How the ranks of one trainer share its work. This is all that a trainer knows of them: it makes every call on all ranks, in the same order.
 *
 * All ranks know the whole batch. Each measures and trains on its share of the rows; what was measured is gathered, so that every rank
 * scores the whole batch alike, and no number depends on how many ranks there are.
 *
 * Gradients follow one rule. Each rank differentiates its part of the loss, and everything that ranks tell each other within a pass has its
 * exact transpose in the backward pass. So the gradient of a weight that several ranks hold is the sum of what they have, and nothing else has to
 * be known about how a model is split.
 */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { ModelSpread } from "../../models/causal-lm/model-spread.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import type { GradientBound } from "../../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { PackedTokens } from "../token-rows.ts";
import type { SavedState, StateParts } from "./parameter-set.ts";

export interface Strategy {
  /** Whose share of the rows this rank has, from 0, and how many shares there are. Ranks that split a model between them have the same share. */
  readonly rank: number;
  readonly numRanks: number;
  /** How models that the trainer loads are split. */
  readonly spread: ModelSpread;
  /** The tensors of all shares, which must have one shape, in their order. The caller frees them. */
  gather(own: Tensor): Promise<readonly Tensor[]>;
  /** What all shares say, in their order: plain data, for a few numbers and not for tensors. */
  exchange<Value>(own: Value): Promise<readonly Value[]>;
  /** Whether all ranks, those of one share too, say yes. */
  agree(own: boolean): Promise<boolean>;
  /**
   * The forward passes that this rank makes where the shares need these numbers of them: as many as the others where weights are gathered
   * within a pass. Passes beyond its own count for nothing.
   */
  numPasses(counts: readonly number[], pass: "measure" | "update"): number;
  /** Whether this rank sees what models say of its share's rows. Where layers are in stages, the last one does. */
  readonly seesOutput: boolean;
  /** Gives a value that was measured of a share's rows to those of its ranks that did not see it, in place of what they have. */
  tell(measured: Tensor): void;
  /** Makes the passes of an update, and adds the gradients of their losses. */
  runPasses(passes: readonly UpdatePass[]): Promise<void>;
  /** Adds the gradients of a loss that all ranks of this share have computed. */
  backward(loss: Tensor): void;
  /** Makes every gradient the sum over all ranks, where this rank keeps it. Call it after the last pass of an update. */
  reduceGradients(): Promise<void>;
  /**
   * Bounds the gradients of these parameters so that their norm, taken over all ranks, is at most `maxNorm`. Gives the norm from before, and the factor that
   * their optimizer is still to take along, if there is one.
   */
  boundGradients(parameters: readonly Parameter[], maxNorm: number): GradientBound;
}

/** One forward pass of an update, and the loss of what comes out of it. Nothing of it may outlive the backward pass, unless it is kept. */
export interface UpdatePass {
  /** Puts the tokens through the models. */
  forward(): PassOutput;
  /** Called where the output is seen. */
  loss(output: PassOutput): Tensor;
}

/** What models made of the tokens of a pass: the last hidden states, [S, D]. */
export interface PassOutput {
  readonly packed: PackedTokens;
  readonly policy_SD: Tensor;
  readonly critic_SD: Tensor | null;
}

/** Makes the passes one after another. */
export function eachPass(passes: readonly UpdatePass[], backward: Strategy["backward"]): void {
  for (const { forward, loss } of passes) tensorScope(() => backward(loss(forward())));
}

/** What the host of a trainer asks of a strategy besides. */
export interface StrategyBuilder extends Strategy {
  /** Where models are loaded to. Weights that are sharded go to the device when they are cut: a whole model need not fit there. */
  readonly loadDevice: string;
  /** Whether this rank speaks for all: it writes files and lends weights. */
  readonly isFirst: boolean;
  /**
   * Takes charge of the parameters of a model and of what goes with it, which then have the values of rank 0, and of the optimizer that `build`
   * makes of those that this rank updates: the parameters themselves or its part of each.
   */
  optimize(model: CausalLm, parameters: NamedParameters, build: OptimizerBuild): Promise<Optimizer>;
  /** Takes charge of a model that does not learn. */
  hold(model: CausalLm): void;
  /** Which of how many files with parts of the state is this rank's; the only one is that of the first rank. */
  readonly shard: { readonly index: number; readonly count: number };
  /** What this rank saves of what an optimizer updates, and of what it knows. Call it in a `tensorScope`. */
  parts(optimizer: Optimizer): StateParts;
  /** Makes this rank's part of the state that of a saved one. Call it on all ranks. */
  restore(optimizer: Optimizer, saved: SavedState): void;
}

/** Makes an optimizer. `isMatrix` says what decays where parts of parameters have lost their shape. */
export type OptimizerBuild = (parameters: NamedParameters, isMatrix?: (name: string) => boolean) => Optimizer;

/** Forward passes over the rows of a grid: what a model says about the tokens that were sampled. */

import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { modelLogprobs } from "../models/causal-lm/model-logprobs.ts";
import type { Foresight } from "../models/causal-lm/token-logprobs.ts";
import type { ValueHead } from "../models/causal-lm/value-head.ts";
import { noGrad } from "../torch/autograd.ts";
import { cat, tensor, zeros } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { type Grid, type PackedTokens, packTokens, type RowTokens, toGrid } from "./token-rows.ts";

interface PolicyOptions {
  /** The temperature the tokens were sampled with, so that both log-probs are of the same distribution. */
  readonly temperature: number;
  /** Compute activations again in the backward pass instead of keeping them. */
  readonly recompute: boolean;
  /**
   * Scores that count, from the first. A teacher or reference may have more than the policy, which pad its vocabulary: they would take
   * probability from tokens that are there. Default: all.
   */
  readonly numScores?: number;
  /** See foresee-loss.ts. Default: gradients are awaited. */
  readonly foresee?: Foresight | undefined;
}

export interface MeasuredPolicy {
  readonly logprobs_BT: Tensor;
  readonly entropies_BT: Tensor;
}

/** Log-probabilities and entropies at loss tokens; zero elsewhere, and everywhere on a stage that does not see what the model says. */
export function measurePolicy(model: CausalLm, packed: PackedTokens, options: PolicyOptions): MeasuredPolicy {
  const hidden_SD = model.forward(packed.ids_S, packed.layout, options);
  if (model.spread.stages.isLast) return policyOf(model, packed, hidden_SD, options);
  const nothing_BT = zeros([packed.numRows, packed.numColumns], { device: model.device });
  return { logprobs_BT: nothing_BT, entropies_BT: nothing_BT };
}

/** The same of last hidden states, [S, D]. With gradient where there is one. */
export function policyOf(
  model: CausalLm,
  packed: PackedTokens,
  hidden_SD: Tensor,
  options: Omit<PolicyOptions, "recompute">,
): MeasuredPolicy & { readonly hidden_ND: Tensor } {
  const hidden_ND = hidden_SD.indexSelect(0, packed.before_N);
  const { logprobs_S, entropy_S } = modelLogprobs(model, hidden_ND, packed.targets_N, options);
  return { logprobs_BT: toGrid(logprobs_S, packed), entropies_BT: toGrid(entropy_S, packed), hidden_ND };
}

/** The last hidden states in front of the loss tokens. */
export function hiddenBefore(model: CausalLm, packed: PackedTokens, recompute = false): Tensor {
  return model.forward(packed.ids_S, packed.layout, { recompute }).indexSelect(0, packed.before_N);
}

/** A critic: a decoder of its own and the head on it. */
export interface Critic {
  readonly model: CausalLm;
  readonly head: ValueHead;
}

interface MeasuredValues {
  /** Before each loss token; zero elsewhere. */
  readonly values_BT: Tensor;
  /** After the last token. */
  readonly bootstrap_B: Tensor;
}

/** Zero on a stage that does not see what the critic says. */
export function measureValues({ model, head }: Critic, packed: PackedTokens): MeasuredValues {
  const hidden_SD = model.forward(packed.ids_S, packed.layout);
  if (model.spread.stages.isLast) return valuesOf(head, packed, hidden_SD);
  const nothing = (...shape: number[]) => zeros(shape, { device: model.device });
  return { values_BT: nothing(packed.numRows, packed.numColumns), bootstrap_B: nothing(packed.numRows) };
}

/** The same of last hidden states, [S, D]. With gradient where there is one. */
export function valuesOf(head: ValueHead, packed: PackedTokens, hidden_SD: Tensor): MeasuredValues {
  const values_S = head.forward(hidden_SD);
  return {
    values_BT: toGrid(values_S.indexSelect(0, packed.before_N), packed),
    bootstrap_B: values_S.indexSelect(0, packed.last_B),
  };
}

/**
 * Runs a measurement without gradient over some rows, part by part, and joins what the parts give in the order of the rows. At
 * least one row.
 */
export function measureAll<Name extends string>(
  grid: Grid<RowTokens>,
  rows: readonly number[],
  parts: readonly (readonly number[])[],
  device: Device,
  measure: (packed: PackedTokens, rows: readonly number[]) => Readonly<Record<Name, Tensor>>,
): Readonly<Record<Name, Tensor>> {
  return noGrad(() =>
    tensorScope(() => {
      const measured = parts.map((part) => tensorScope(() => measure(packTokens(grid, part, device), part)));
      const names = Object.keys(measured[0]!) as Name[];
      const join = (name: Name) =>
        joinParts(
          measured.map((values) => values[name]),
          parts,
          rows,
        );
      return Object.fromEntries(names.map((name) => [name, join(name)])) as Record<Name, Tensor>;
    }),
  );
}

/** What the parts gave for their rows, in the order of `rows`. */
export function joinParts(
  values: readonly Tensor[],
  parts: readonly (readonly number[])[],
  rows: readonly number[],
): Tensor {
  const joined = cat([...values]);
  const placeOf = new Map(parts.flat().map((row, place) => [row, place]));
  const places = rows.map((row) => placeOf.get(row)!);
  if (places.every((place, i) => place === i)) return joined;
  return joined.indexSelect(0, tensor(places, { dtype: "int64", device: joined.device }));
}

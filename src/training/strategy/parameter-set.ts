/** Parameters that are trained together: where their values, their gradients and what their optimizer knows of them are. */
import { noGrad } from "../../torch/autograd.ts";
import { stack, zeros } from "../../torch/create.ts";
import type { Collective } from "../../torch/distributed/collective.ts";
import type { DType } from "../../torch/dtype.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import type { Optimizer, OptimizerState } from "../../torch/optim/optimizer.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Whole values of parameters, and what an optimizer knows of them, under the names and in the shapes of a model that is all in one place. */
export interface TrainedState {
  readonly parameters: ReadonlyMap<string, Tensor>;
  readonly optimizer: OptimizerState;
}

/** A state of which ranks have parts: what there is, and each tensor whole when its turn comes, so that no rank holds all of it. */
export interface CollectedState {
  readonly tensors: readonly CollectedTensor[];
  readonly numbers: Readonly<Record<string, number>>;
  dispose(): void;
}

interface CollectedTensor {
  readonly of: "parameters" | "optimizer";
  /** The name of a parameter, or the key of an optimizer's state. */
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The whole values, which belong to the scope that it is called in or to the state. Called on all ranks, on one tensor after another in one order. */
  gather(): Tensor;
}

/** Every call is made on all ranks. */
export interface ParameterSet {
  readonly optimizer: Optimizer;
  has(parameter: Parameter): boolean;
  /** Makes the gradients those of all ranks. */
  reduce(): Promise<void>;
  /** As `Strategy.clipGradients`, for parameters of this set. */
  clip(parameters: readonly Parameter[], maxNorm: number): Tensor;
  /** The state under the names and in the shapes of a model that is all in one place. */
  collect(): Promise<CollectedState>;
  /** Makes the state equal to one that is whole, on this rank's part of it. Parameters that it does not name stay as they are. */
  restore(state: TrainedState): void;
}

/**
 * Scales gradients by one factor so that their norm over all ranks is at most `maxNorm`, and gives the norm from before.
 *
 * @param counted the gradients of this rank that no other rank counts
 * @param scaled those that it has
 */
export function clipOver(
  ranks: readonly Collective[],
  counted: readonly Tensor[],
  scaled: readonly Tensor[],
  maxNorm: number,
  device: string,
): Tensor {
  return noGrad(() =>
    tensorScope(() => {
      // Added up in float64: sums of a million squares in float32 are off by more than ranks may differ.
      const squares = counted.map((gradient) => ops.norm(gradient, 2, null, false, "float64").square());
      const total = squares.length === 0 ? zeros([], { dtype: "float64", device }) : stack(squares).sum();
      for (const group of ranks) group.reduce_(total);
      // Rounded before the root is taken: the sum overflows, and the update is skipped, exactly where that of one rank does.
      const norm = total.to("float32").sqrt();
      // As in clipGradNorm.
      const factor = norm.add(1e-6).reciprocal().mul(maxNorm).clamp(null, 1);
      for (const gradient of scaled) gradient.mul_(factor.to(gradient.dtype).toDevice(gradient.device));
      return norm;
    }),
  );
}

const ops = { norm: op("aten::linalg_vector_norm") } as const;

/** Parameters that are trained together: where their values, their gradients and what their optimizer knows of them are. */
import { noGrad } from "../../torch/autograd.ts";
import { stack, zeros } from "../../torch/create.ts";
import type { Collective } from "../../torch/distributed/collective.ts";
import type { TensorPart } from "../../torch/distributed/tensor-part.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import type { GradientBound } from "../../torch/optim/clip-grad-norm.ts";
import type { Optimizer, OptimizerState } from "../../torch/optim/optimizer.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Whole values of parameters, and what an optimizer knows of them, under the names and in the shapes of a model that is all in one place. */
export interface TrainedState {
  readonly parameters: ReadonlyMap<string, Tensor>;
  readonly optimizer: OptimizerState;
}

/** What a rank saves of parameters and of what an optimizer knows of them: its own parts, of which no other rank saves any. */
export interface StateParts {
  readonly tensors: readonly SavedPart[];
  readonly numbers: Readonly<Record<string, number>>;
}

interface SavedPart {
  readonly of: "parameters" | "optimizer";
  /** The name of a parameter, or the key of an optimizer's state. */
  readonly name: string;
  /** Shares memory with what is trained. */
  readonly value: Tensor;
  readonly part: TensorPart;
  /** Of the whole. */
  readonly shape: readonly number[];
}

/** A state that was saved, of which any part can be read. What is read lives as long as the scope that it is read in. */
export interface SavedState {
  readonly numbers: Readonly<Record<string, number>>;
  /** The names of parameters that are there, and the keys of an optimizer's state. */
  readonly parameters: ReadonlySet<string>;
  readonly known: ReadonlySet<string>;
  readParameter(name: string, part: TensorPart): Tensor;
  readKnown(key: string, part: TensorPart): Tensor;
}

/** Every call is made on all ranks. */
export interface ParameterSet {
  readonly optimizer: Optimizer;
  has(parameter: Parameter): boolean;
  /** Makes the gradients those of all ranks. */
  reduce(): Promise<void>;
  /** As `Strategy.boundGradients`, for parameters of this set. */
  bound(parameters: readonly Parameter[], maxNorm: number): GradientBound;
  /** What this rank has to save. Call it in a `tensorScope`. */
  parts(): StateParts;
  /** Makes the state equal to a saved one, on this rank's part of it. Parameters that it does not name stay as they are. */
  restore(saved: SavedState): void;
}

/** What of the saved numbers an optimizer of these parameters takes: its groups may be fewer, and all have the rate of the schedule. */
export function numbersFor(
  { groups }: Optimizer,
  { numbers }: SavedState,
  isOwn: (name: string) => boolean,
): Record<string, number> {
  const steps = Object.entries(numbers).filter(([key]) => key.startsWith("step.") && isOwn(nameOf(key)));
  const lrs = groups.map((_, i) => [`lr.${i}`, numbers["lr.0"]!] as const);
  return Object.fromEntries([...steps, ...lrs]);
}

/** The parameter of a key of an optimizer's state: "<kind>.<name>". */
export function nameOf(key: string): string {
  return key.slice(key.indexOf(".") + 1);
}

/**
 * Scales gradients by one factor so that their norm over all ranks is at most `maxNorm`, and gives the norm from before.
 *
 * @param device where the norm is wanted; gradients may be on the host
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
      const total =
        squares.length === 0 ? zeros([], { dtype: "float64", device }) : stack(squares).sum().toDevice(device);
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

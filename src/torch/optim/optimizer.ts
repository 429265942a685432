/** The interface of all optimizers, and the form in which their state is saved. */
import type { Tensor } from "../tensor.ts";
import type { OptimizerGroup } from "./parameter-group.ts";

/** Updates parameters from their gradients. */
export interface Optimizer {
  /** `lr` of a group may be set at any time; the next step uses it. */
  readonly groups: readonly OptimizerGroup[];
  /**
   * Updates every parameter that has a gradient. The others, and their state, stay as they are. `factor`, one element in float32, is multiplied with
   * all gradients first, which themselves may stay as they are: see boundGradNorm.
   */
  step(factor?: Tensor | null): void;
  /** Drops the gradients; the next backward makes new ones. */
  zeroGrad(): void;
  stateDict(): OptimizerState;
  /** Makes the state equal to a saved one: moments, steps and learning rates. Nothing changes if it does not fit. */
  loadStateDict(state: OptimizerState): void;
  /** Frees the state, not the parameters. */
  dispose(): void;
}

/** The state under keys "<kind>.<path of the parameter>", as a safetensors file and its metadata can hold it. */
export type OptimizerState = {
  /** Outside the graph, sharing memory with the optimizer: copy them to keep them past the next step. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** "step.<path>" counts a parameter's updates; "lr.<group>" is a group's learning rate. */
  readonly numbers: Readonly<Record<string, number>>;
};

/** Activation functions by name. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../tensor.ts";

/** The functions a network may be built with. `gelu` is the exact one, with erf. */
export const activations = {
  relu: (x: Tensor) => x.relu(),
  tanh: (x: Tensor) => x.tanh(),
  elu: (x: Tensor) => x.elu(),
  gelu: (x: Tensor) => x.gelu(),
  silu: (x: Tensor) => x.silu(),
} as const;

/** A key of the table. */
export type ActivationName = keyof typeof activations;

/** The function of this name. Throws for a name that came past the types, from a config file. */
export function activationOf(name: ActivationName): (x: Tensor) => Tensor {
  if (Object.hasOwn(activations, name)) return activations[name];
  throw new RerollError(
    "INVALID_ARGUMENT",
    `activation "${name}" is not known. Choose one of ${Object.keys(activations).join(", ")}.`,
  );
}

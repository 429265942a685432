/** The check that layers make on what they are given. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../tensor.ts";

/** Throws unless the last dimension of the input has the size the layer was made for. */
export function expectWidth(layer: string, input: Tensor, width: number): void {
  const { shape } = input;
  if (shape.at(-1) === width) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `${layer} got an input of shape [${shape.join(", ")}]. The last dimension must be ${width}: make the layer ` +
      "for the width of the input, or reshape the input.",
    { shape, width },
  );
}

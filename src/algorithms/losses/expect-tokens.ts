/** Checks of inputs that are not float [B, T]. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { DType } from "../../torch/dtype.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { NamedTensors } from "../expect-batch.ts";

/** Throws unless the tensors are [B, T, x] over the tokens of the mask. */
export function expectTokens(tensors: NamedTensors, lossMask_BT: Tensor): void {
  const mask = lossMask_BT.shape;
  for (const [name, { shape }] of Object.entries(tensors)) {
    if (mask.length === 2 && shape.length === 3 && shape[0] === mask[0] && shape[1] === mask[1]) continue;
    throw new RerollError(
      "SHAPE_MISMATCH",
      `${name} has shape [${shape.join(", ")}] but lossMask_BT has [${mask.join(", ")}]. The mask must be [B, T], and ` +
        `${name} must have its first two dimensions and one more.`,
      { [name]: shape, lossMask_BT: mask },
    );
  }
}

/** Throws unless the tensor is [B, T] like the mask, of this type. */
export function expectPerToken(name: string, values_BT: Tensor, dtype: DType, lossMask_BT: Tensor): void {
  const [got, wanted] = [values_BT.shape, lossMask_BT.shape];
  if (values_BT.dtype === dtype && got.length === wanted.length && got.every((size, i) => size === wanted[i])) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `${name} must be ${dtype} [${wanted.join(", ")}] like lossMask_BT: got ${values_BT.dtype} [${got.join(", ")}].`,
    { [name]: got, lossMask_BT: wanted },
  );
}

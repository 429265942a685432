/**
 * Advantages are computed on the host in float64, whatever the type and device of the tensors.
 *
 * They are needed once per step, from numbers that came from the host; a recursion over 2,048 tokens is thousands of
 * launches on a device and a few milliseconds in a loop; and sums on the host have one order, so that two runs agree.
 */
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** The values of a float tensor in row-major order: float64 as it is, all other types as float32. */
type Floats = Float32Array | Float64Array;

export function readFloats(values: Tensor): Floats {
  if (values.dtype !== "float64") return values.toFloat32Array();
  const read = values.toTypedArray();
  invariant(read instanceof Float64Array, "a float64 tensor reads as a Float64Array");
  return read;
}

/** Zeros to be filled and written with `writeLike`. */
export function floatsLike(like: Tensor): Floats {
  return like.dtype === "float64" ? new Float64Array(like.numel) : new Float32Array(like.numel);
}

/** 1 where a bool tensor is true, in row-major order. */
export function readBools(mask: Tensor): Uint8Array {
  const read = mask.toTypedArray();
  invariant(read instanceof Uint8Array, "a bool tensor reads as a Uint8Array");
  return read;
}

/** The values of a tensor. Throws, naming the tensor, if a value is NaN or infinite where `mask` (if given) holds. */
export function readFinite(name: string, values: Tensor, mask?: Uint8Array): Floats {
  const read = readFloats(values);
  const wrong = findNonFinite(read, mask);
  if (wrong === -1) return read;
  const position = positionOf(wrong, values.shape);
  throw new RerollError(
    "NON_FINITE",
    `${name} must be finite: got ${read[wrong]} at [${position.join(", ")}]. A reward or value that could not be ` +
      "computed ends its trajectory as failed; it is not passed on as a number.",
    { name, value: read[wrong], position },
  );
}

/** A tensor with these values, in the shape, of the type and on the device of another. */
export function writeLike(values: Floats, like: Tensor): Tensor {
  return tensor(values, like.shape, { dtype: like.dtype, device: like.device });
}

/** One value per row, of the type and on the device of another tensor. */
export function writeRows(values: readonly number[], like: Tensor): Tensor {
  return tensor(Float64Array.from(values), [values.length], { dtype: like.dtype, device: like.device });
}

// A plain loop: this runs over every token of a batch, where a callback per value would cost more than everything else.
function findNonFinite(values: Floats, mask: Uint8Array | undefined): number {
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i]!) && (mask === undefined || mask[i] !== 0)) return i;
  }
  return -1;
}

function positionOf(index: number, shape: readonly number[]): number[] {
  let rest = index;
  return shape
    .toReversed()
    .map((size) => {
      const at = rest % size;
      rest = Math.floor(rest / size);
      return at;
    })
    .reverse();
}

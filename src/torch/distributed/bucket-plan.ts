/** Which tensors travel together. */
import { bytesOf } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";

/**
 * Groups tensors of one type and device into buckets of at most `bucketBytes`, in reverse order: the last layers, whose
 * gradients are complete first, lead. A larger tensor has a bucket of its own. The plan depends on the types, shapes
 * and order only, so that all ranks of a group make the same one.
 */
export function planBuckets(tensors: readonly Tensor[], bucketBytes: number): Tensor[][] {
  const buckets: Tensor[][] = [];
  const open = new Map<string, { readonly bucket: Tensor[]; bytes: number }>();
  for (const tensor of tensors.toReversed()) {
    const key = `${tensor.dtype} ${tensor.device}`;
    const bytes = tensor.numel * bytesOf(tensor.dtype);
    const current = open.get(key);
    if (current !== undefined && current.bytes + bytes <= bucketBytes) {
      current.bucket.push(tensor);
      current.bytes += bytes;
    } else {
      const bucket = [tensor];
      buckets.push(bucket);
      open.set(key, { bucket, bytes });
    }
  }
  return buckets;
}

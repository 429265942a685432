/**
 * The number of elements of a shape, 1 for a scalar.
 * NaN when a size is not a non-negative safe integer or when the product is not exact, so a lying file cannot wrap around.
 */
export function countElements(shape: readonly number[]): number {
  let count = 1;
  for (const size of shape) {
    if (!Number.isSafeInteger(size) || size < 0) return Number.NaN;
    count *= size;
    if (!Number.isSafeInteger(count)) return Number.NaN;
  }
  return count;
}

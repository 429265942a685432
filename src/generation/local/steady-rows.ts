/**
 * How many rows a product on the CPU needs, so that what it gives for one row does not depend on how many others there are.
 *
 * OpenBLAS multiplies a single row, and results of at most 1200 numbers, by kernels that add in another order than its large
 * one. A step of a steady engine is filled up beyond that: a token's log-probability then follows from its own sequence alone,
 * to the bit, whatever the engine happens to batch it with, and a run with one seed gives the same numbers every time. That holds for
 * OpenBLAS's kernels for AVX-512; others mix the rows of large products as well, and steady-products.ts takes their place.
 */

/** The largest result that the kernels for small products take (OpenBLAS, `sgemm_small_matrix_permit` for AVX-512). */
const SMALL_RESULT = 1200;

/** The least number of rows for a product with this many columns. */
export function numSteadyRows(width: number): number {
  return Math.max(2, Math.floor(SMALL_RESULT / width) + 1);
}

/** libtorch computes functions this many values at a time on the CPU, and what is left over by code that rounds otherwise. */
const VECTOR = 32;

/** Rows of these widths must come in multiples of this, so that nothing is left over. */
export function steadyMultiple(widths: readonly number[]): number {
  const divides = (count: number) => widths.every((width) => (count * width) % VECTOR === 0);
  let count = 1;
  while (!divides(count)) count *= 2;
  return count;
}

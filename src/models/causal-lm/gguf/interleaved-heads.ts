/**
 * The order in which llama.cpp stores the rows of query and key projections of the llama architecture.
 *
 * llama.cpp rotates neighboring pairs of a head; Hugging Face pairs the first half of a head with the second. The converter
 * therefore stores row j of the first half at 2j and row j of the second half at 2j + 1 of each head.
 */
import type { HeadCounts, StoredForm } from "../families/family.ts";

/** The stored form of a projection with this many heads. */
export function interleavedHeads(numHeadsOf: (heads: HeadCounts) => number): StoredForm {
  return {
    problemWith: (shape, heads) => {
      const numHeads = numHeadsOf(heads);
      const numRows = numHeads * heads.head_dim;
      if (shape[0] === numRows && numRows !== 0) return null;
      return `${numHeads} heads of ${heads.head_dim} need ${numRows} rows`;
    },
    restore: (values, heads) => undoInterleaving(values, numHeadsOf(heads) * heads.head_dim, numHeadsOf(heads)),
  };
}

/**
 * Puts the rows back into the order of Hugging Face.
 * @param values the tensor, row after row; a bias is a tensor of rows of one value
 * @param numRows heads times head size; must be a multiple of twice `numHeads`
 */
export function undoInterleaving(values: Float32Array, numRows: number, numHeads: number): Float32Array {
  const restored = new Float32Array(values.length);
  const rowLength = values.length / numRows;
  const headRows = numRows / numHeads;
  for (let row = 0; row < numRows; row++) {
    const head = Math.floor(row / headRows);
    const inHead = row % headRows;
    const half = inHead % 2;
    const target = head * headRows + half * (headRows / 2) + (inHead - half) / 2;
    restored.set(values.subarray(row * rowLength, (row + 1) * rowLength), target * rowLength);
  }
  return restored;
}

/**
 * Puts the rows of a llama query or key projection back into Hugging Face order.
 *
 * llama.cpp rotates neighbouring pairs of a head, Hugging Face pairs its first half with its second. The converter therefore
 * stores row j of the first half at 2j and row j of the second half at 2j + 1 of each head; this is the inverse.
 * @param values the tensor, row after row; a bias is a tensor of rows of one value
 * @param numRows heads times head size; must be a multiple of twice `numHeads`
 */
export function undoRopePermutation(values: Float32Array, numRows: number, numHeads: number): Float32Array {
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

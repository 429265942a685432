/**
 * Kernels on a GPU that give a token the same numbers wherever it stands: alone, in a batch, in a prompt, in a training row.
 *
 * Usually they do not. A product of few rows is cut along its inner dimension and added up in another order than one of many, and
 * attention is divided by how much of it there is. Each of those differences is in the last bit of a float32; rounding to 16 bits
 * makes some of them 1 in 256, and the next layer carries them on. Exact kernels cut by what belongs to the token alone, and the
 * engine and the trainer use the same ones: their log-probabilities are equal to the bit.
 */
import { native } from "./binding.ts";

/**
 * The engine fills its products up to this many rows. For fewer the library picks kernels that count on being cut: uncut, one of 64 rows
 * with 4,864 columns takes 107 microseconds, one of 256 rows 10.
 */
export const minExactRows = 256;

/** Turns exact kernels on, in all threads of this process and for as long as it lives. Needs libtorch 2.10 with CUDA. */
export function useExactKernels(): void {
  native.cudaKeepProductsWhole();
}

/** Whether exact kernels are on. */
export function isExact(): boolean {
  return native.builtWithCuda && native.cudaAreProductsWhole();
}

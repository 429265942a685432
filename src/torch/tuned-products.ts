/**
 * Large products in 16 bits on a GPU, each by the algorithm that was fastest when its shape was first met.
 *
 * All algorithms add up in float32, in different orders: results differ in their last bits, and so may those of two processes that found another one
 * to be faster. Exact kernels (exact.ts) and engines, which compute in inference mode, leave products as they are.
 */
import { native } from "./binding.ts";

/**
 * Turns it on, in all threads of this process and for as long as it lives, for products with at least 2,048 tokens. The first product of a shape is
 * computed for some hundredths of a second, and stays with libtorch where nothing is clearly faster. Does nothing without a GPU, with a libtorch before 2.10, and where libtorch's cuBLASLt is not the one of its headers.
 */
export function tuneProducts(): void {
  native.cudaTuneProducts();
}

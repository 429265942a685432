/**
 * Linear products of an engine's step, whose rows are to be the same to the bit whatever they are batched with.
 *
 * OpenBLAS promises that of none of its kernels. Those for AVX-512 keep it all the same once products are not small, which steps are filled up for
 * (the engine's steady-rows.ts). Those for AVX2, which most processors have, give rows that are left over from twelve to other code, and with
 * several threads divide a product by its number of rows. Where they, or any others of OpenBLAS, are in use, the addon multiplies in place of them.
 * Rows that nobody fills up, those of one expert or of a reward model, it always multiplies.
 */
import { isGradEnabled } from "./autograd.ts";
import { native } from "./binding.ts";
import { op } from "./operator.ts";
import { expectSynchronous } from "./scope.ts";
import { Tensor } from "./tensor.ts";

/** OpenBLAS's names for processors with AVX-512, in small letters. */
const steadyCores: ReadonlySet<string> = new Set(["skylakex", "cooperlake", "sapphirerapids"]);

/** What a `linear` has: as many rows as a step was filled up to, or any number of them. */
type Rows = "filled up" | "any";

let wanted: Rows | null = null;
let mustMultiply: boolean | undefined;

/** Runs `body` so that a row of each `linear` in it depends on that row alone, where no gradients are recorded. For generation and scores on the CPU. */
export function steadyProducts<Result>(rows: Rows, body: () => Result): Result {
  const before = wanted;
  wanted = rows;
  try {
    return expectSynchronous("steadyProducts", body());
  } finally {
    wanted = before;
  }
}

/** x weight' + bias over the last dimension of x. */
export function linear(x: Tensor, weight: Tensor, bias: Tensor | null = null): Tensor {
  mustMultiply ??= mixesRows(native.openblasCore());
  return (mustMultiply || wanted === "any" ? steadyLinear(x, weight, bias) : null) ?? ops.linear(x, weight, bias);
}

/** The same for any number of rows, whatever the others have. */
export function linearOfFew(x: Tensor, weight: Tensor, bias: Tensor | null = null): Tensor {
  return steadyLinear(x, weight, bias) ?? ops.linear(x, weight, bias);
}

/** The addon's product. Null where libtorch's own is to be taken. */
function steadyLinear(x: Tensor, weight: Tensor, bias: Tensor | null): Tensor | null {
  if (wanted === null || isGradEnabled()) return null;
  const product = native.steadyLinear(x.handle, weight.handle, bias?.handle ?? null);
  return product === null ? null : new Tensor(product);
}

/** Whether what OpenBLAS gives for a row depends on the other rows, by its name for the processor; null stands for another library. */
export function mixesRows(openblasCore: string | null): boolean {
  return openblasCore !== null && !steadyCores.has(openblasCore.toLowerCase());
}

const ops = { linear: op("aten::linear") } as const;

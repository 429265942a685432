/**
 * Numbers as 8-bit codes, a scale for every block of 256: the dynamic quantization of Dettmers, Lewis, Shleifer and Zettlemoyer 2021
 * ("8-bit Optimizers via Block-wise Quantization").
 *
 * A block is divided by its largest magnitude. The codes are dense near that and reach down by seven powers of ten, so that a small number
 * beside a large one is not lost. An outlier costs precision in its own block alone.
 */
import { empty, tensor, zeros } from "../create.ts";
import type { Device } from "../dtype.ts";
import { op } from "../operator.ts";
import { tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";

/** Values per scale. The paper has 2,048; smaller blocks are more exact, and cost 1.6 % more memory. */
export const BLOCK = 256;

/** Values that are coded at a time, which bounds the memory of intermediates. A multiple of BLOCK. */
const CHUNK = 2 ** 22;

/** Whether codes stand for both signs, or for one of them with twice the precision. */
export type Sign = "signed" | "unsigned";

/** The 256 numbers from -1 or 0 to 1 that codes stand for, in order. */
export function codeValues(sign: Sign): readonly number[] {
  const values = [0, 1];
  for (let exponent = 0; exponent < 7; exponent++) {
    const numValues = 2 ** (sign === "signed" ? exponent : exponent + 1);
    for (let i = 0; i < numValues; i++) {
      // The middles of equal parts of 0.1 to 1, times a power of ten.
      const fraction = 0.1 + (0.9 * (i + 0.5)) / numValues;
      const value = fraction * 10 ** (exponent - 6);
      values.push(value, ...(sign === "signed" ? [-value] : []));
    }
  }
  return values.sort((a, b) => a - b);
}

/**
 * Codes a tensor of floats into `codes`, uint8 of the same number of elements, and `scales`, one per block. Of unsigned numbers none but 0 becomes 0:
 * what is too small for the codes becomes the smallest of them, so that dividing by it stays safe.
 */
export function encode(values: Tensor, codes: Tensor, scales: Tensor, sign: Sign): void {
  const bounds_255 = middlesOf(sign, values.device);
  const flat_N = values.reshape(-1);
  const codes_N = codes.view(-1);
  for (let start = 0; start < flat_N.numel; start += CHUNK) {
    const numValues = Math.min(CHUNK, flat_N.numel - start);
    tensorScope(() => {
      const blocks_KB = inBlocks(flat_N.narrow(0, start, numValues));
      const scales_K1 = blocks_KB.abs().amax(1, true);
      // A block of zeros has any scale.
      const scaled_KB = blocks_KB.div(scales_K1.where(scales_K1.gt(0), 1));
      const nearest = ops.searchSorted(bounds_255, scaled_KB.contiguous(), true, false);
      const index = sign === "unsigned" ? nearest.maximum(scaled_KB.gt(0).to("int32")) : nearest;
      codes_N.narrow(0, start, numValues).copy_(index.view(-1).narrow(0, 0, numValues));
      scales.narrow(0, start / BLOCK, scales_K1.size(0)).copy_(scales_K1.view(-1));
    });
  }
}

/** The numbers that codes and scales stand for, float32 in the shape of `codes`. */
export function decode(codes: Tensor, scales: Tensor, sign: Sign): Tensor {
  const out = empty(codes.shape, { dtype: "float32", device: codes.device });
  const [out_N, codes_N] = [out.view(-1), codes.view(-1)];
  const values_256 = tensor(Float32Array.from(codeValues(sign)), [256], { device: codes.device });
  for (let start = 0; start < codes_N.numel; start += CHUNK) {
    const numValues = Math.min(CHUNK, codes_N.numel - start);
    tensorScope(() => {
      const index_N = codes_N.narrow(0, start, numValues).to("int32");
      const blocks_KB = inBlocks(values_256.indexSelect(0, index_N));
      const scales_K1 = scales.narrow(0, start / BLOCK, blocks_KB.size(0)).unsqueeze(1);
      out_N.narrow(0, start, numValues).copy_(blocks_KB.mul(scales_K1).view(-1).narrow(0, 0, numValues));
    });
  }
  return out;
}

/** Rows of a block each; the last is filled up with zeros. */
function inBlocks(flat_N: Tensor): Tensor {
  const numBlocks = Math.ceil(flat_N.numel / BLOCK);
  if (flat_N.numel === numBlocks * BLOCK) return flat_N.view(numBlocks, BLOCK).to("float32");
  const filled = zeros([numBlocks * BLOCK], { dtype: "float32", device: flat_N.device });
  filled.narrow(0, 0, flat_N.numel).copy_(flat_N);
  return filled.view(numBlocks, BLOCK);
}

function middlesOf(sign: Sign, device: Device): Tensor {
  const values = codeValues(sign);
  const middles = Float32Array.from({ length: 255 }, (_, i) => (values[i]! + values[i + 1]!) / 2);
  return tensor(middles, [255], { device });
}

const ops = { searchSorted: op("aten::searchsorted.Tensor", { isUnchecked: true }) } as const;

/**
 * A frozen matrix in 8 or 4 bits: whole numbers or levels, and one float32 scale for every block of a row.
 *
 * What it stands for is exact and the same everywhere: trainer and engine that quantize the same weights compute with the same values. It is
 * expanded when it is used and kept by nobody, neither the graph nor the backward pass, which expands it again.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { applyFunction, noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import type { Device, DType } from "../../torch/dtype.ts";
import { op } from "../../torch/operator.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import { linear } from "../../torch/steady-products.ts";
import type { Tensor } from "../../torch/tensor.ts";

/**
 * int8: 255 steps of a block's largest magnitude, which holds Q8_0 of GGUF files as it is. int4: 16 steps, which holds Q4_0. nf4: 16 levels
 * at the quantiles of a normal distribution, which loses the least of usual weights (Dettmers et al. 2023).
 */
export type Quantization = "int8" | "int4" | "nf4";

/** Values under one scale. Those of GGUF, so that what is quantized there stays as it is. */
const blockSize = 32;

/** The levels of NF4, from the paper's appendix E. */
const normalLevels = [
  -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
  -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
  0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
];
const evenLevels = Array.from({ length: 16 }, (_, i) => i - 8);

export class QuantizedMatrix {
  readonly shape: readonly [number, number];
  readonly dtype: DType;
  readonly #isWide: boolean;
  /** One byte per value, or one for two of them; [blocks, bytes]. */
  readonly #codes: Tensor;
  readonly #scales: Tensor;
  /** The two values that a byte of two codes stands for, [256, 2]. */
  readonly #pairs: Tensor | null;

  /** Quantizes a matrix. Its rows must be whole numbers of blocks. */
  constructor(matrix: Tensor, quantization: Quantization, device: Device = matrix.device) {
    const [rows, columns] = matrix.shape as [number, number];
    if (columns % blockSize !== 0) {
      throw new RerollError(
        "SHAPE_MISMATCH",
        `a matrix of [${rows}, ${columns}] cannot be quantized: its rows must be multiples of ${blockSize} values. Leave out model.quantization for this model.`,
      );
    }
    this.shape = [rows, columns];
    this.dtype = matrix.dtype;
    this.#isWide = quantization === "int8";
    const made = tensorScope(() =>
      noGrad(() => {
        const blocks = matrix.detach().to("float32").reshape(-1, blockSize);
        const { codes, scales } = quantizeBlocks(blocks, quantization);
        const pairs = quantization === "int8" ? null : pairTable(levelsOf(quantization));
        return {
          codes: codes.toDevice(device),
          scales: scales.toDevice(device),
          ...(pairs !== null && { pairs: pairs.toDevice(device) }),
        };
      }),
    );
    keep(made);
    this.#codes = made.codes;
    this.#scales = made.scales;
    this.#pairs = made.pairs ?? null;
  }

  /** The bytes that it takes. */
  get numBytes(): number {
    return this.#codes.numel + 4 * this.#scales.numel;
  }

  /** The values that it stands for, in the type of the matrix it was made of. */
  expand(): Tensor {
    return noGrad(() => {
      const units = this.#isWide
        ? this.#codes.to("float32").sub(128)
        : this.#pairs!.indexSelect(0, this.#codes.flatten().to("int32")).view(-1, blockSize);
      return units
        .mul(this.#scales)
        .to(this.dtype)
        .view(...this.shape);
    });
  }

  /** x W', differentiable in x alone. */
  linear(x: Tensor): Tensor {
    const [y] = applyFunction(
      {
        forward: ([input]) => ({ outputs: [tensorScope(() => linear(input!, this.expand()))], saved: [] }),
        backward: ([grad]) => [tensorScope(() => grad!.matmul(this.expand()))],
      },
      [x],
    );
    return y!;
  }

  dispose(): void {
    this.#codes.dispose();
    this.#scales.dispose();
    this.#pairs?.dispose();
  }
}

function levelsOf(quantization: "int4" | "nf4"): readonly number[] {
  return quantization === "int4" ? evenLevels : normalLevels;
}

/** Codes as bytes, and a scale per block: [blocks, bytes] and [blocks, 1]. */
function quantizeBlocks(blocks: Tensor, quantization: Quantization): { codes: Tensor; scales: Tensor } {
  const largest = blocks.abs().amax(-1, true);
  switch (quantization) {
    case "int8": {
      const scales = largest.div(127);
      return { codes: unitsOf(blocks, scales).round().add(128).to("uint8"), scales };
    }
    case "int4": {
      // The value of the largest magnitude becomes -8, whatever its sign: the step is the finest that way.
      const scales = blocks.gather(1, blocks.abs().argmax(-1, true)).div(-8);
      return { codes: packed(unitsOf(blocks, scales).round().clamp(-8, 7).add(8)), scales };
    }
    case "nf4": {
      const middles = normalLevels.slice(1).map((level, i) => (level + normalLevels[i]!) / 2);
      const nearest = ops.bucketize(unitsOf(blocks, largest), tensor(middles, { device: blocks.device }));
      return { codes: packed(nearest), scales: largest };
    }
  }
}

/** Values over the scale of their block; a block of zeros stays one. */
function unitsOf(blocks: Tensor, scales: Tensor): Tensor {
  return blocks.div(scales.maskedFill(scales.eq(0), 1));
}

/** Two codes from 0 to 15 in each byte, the first in the upper half. */
function packed(codes: Tensor): Tensor {
  const pairs = codes.view(codes.size(0), blockSize / 2, 2);
  return pairs.select(2, 0).mul(16).add(pairs.select(2, 1)).to("uint8");
}

function pairTable(levels: readonly number[]): Tensor {
  return tensor(levels.flatMap((first) => levels.map((second) => [first, second])));
}

const ops = { bucketize: op("aten::bucketize.Tensor") } as const;

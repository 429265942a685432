/**
 * The weight of a linear layer in 8-bit floats, with a scale per output, for an engine: a quarter to a half of the memory and, where the
 * device multiplies such numbers, less time. Inputs are rounded alike as they come, a scale per token, so that what a token gets
 * depends on itself alone. Written anew with every publication of weights; nothing is trained through it.
 */
import { noGrad } from "../../torch/autograd.ts";
import { empty } from "../../torch/create.ts";
import type { Device, DType } from "../../torch/dtype.ts";
import { type Fp8Rows, fp8Product, fp8Rounded, fp8Rows, hasFp8 } from "../../torch/fp8.ts";
import { bytesIn } from "../../torch/memory.ts";
import { op } from "../../torch/operator.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import { linear } from "../../torch/steady-products.ts";
import type { Tensor } from "../../torch/tensor.ts";

export class Fp8Matrix {
  readonly shape: readonly [number, number];
  readonly dtype: DType;
  /** Codes and scales, or the values that they stand for where the device has no products of them. */
  readonly #rows: Fp8Rows | null;
  readonly #values: Tensor | null;

  /** Both widths must be multiples of 16: see `fitsFp8`. */
  constructor(matrix: Tensor, device: Device = matrix.device) {
    const [rows, columns] = matrix.shape as [number, number];
    this.shape = [rows, columns];
    this.dtype = matrix.dtype;
    const isNative = hasFp8(device);
    this.#rows = isNative
      ? keep({ codes: empty([rows, columns], { device, dtype: "uint8" }), scales: empty([rows, 1], { device }) })
      : null;
    this.#values = isNative ? null : keep(empty([rows, columns], { device, dtype: matrix.dtype }));
    this.write(0, matrix);
  }

  get numBytes(): number {
    return bytesIn(this.#tensors);
  }

  /** Replaces the rows from `start` on by those of a matrix, in place: what reads this one, such as a recorded step, reads the new ones. */
  write(start: number, matrix: Tensor): void {
    tensorScope(() =>
      noGrad(() => {
        const [numRows] = matrix.shape as [number, number];
        const place = (whole: Tensor) => whole.narrow(0, start, numRows);
        const given = matrix.detach().to(this.dtype).toDevice(this.#tensors[0]!.device);
        if (this.#values !== null) return void place(this.#values).copy_(fp8Rounded(given));
        const { codes, scales } = fp8Rows(given);
        place(this.#rows!.codes).copy_(codes);
        place(this.#rows!.scales).copy_(scales);
      }),
    );
  }

  /** The values that it stands for. */
  expand(): Tensor {
    if (this.#values !== null) return this.#values;
    const { codes, scales } = this.#rows!;
    return ops.viewAs(codes, "float8_e4m3fn").to("float32").mul(scales).to(this.dtype);
  }

  /** x W' + bias for x of [S, in]. */
  linear(x: Tensor, bias: Tensor | null): Tensor {
    return this.#rows === null
      ? linear(fp8Rounded(x), this.#values!, bias)
      : fp8Product(fp8Rows(x), this.#rows, bias, this.dtype);
  }

  dispose(): void {
    for (const one of this.#tensors) one.dispose();
  }

  get #tensors(): readonly Tensor[] {
    return this.#rows === null ? [this.#values!] : [this.#rows.codes, this.#rows.scales];
  }
}

/** Whether products of a matrix of this shape can be made in 8-bit floats. */
export function fitsFp8([rows, columns]: readonly number[]): boolean {
  return rows! % 16 === 0 && columns! % 16 === 0;
}

const ops = { viewAs: op("aten::view.dtype") } as const;

/**
 * Matrices in 8-bit floats (e4m3: a sign, four bits of exponent, three of mantissa, up to 448) with one float32 scale per row.
 *
 * The scale of a row makes its largest magnitude 448. Where the device multiplies such numbers, products are made of the codes; elsewhere
 * of the values that the codes stand for, which are the same to the bit. Sums are rounded differently, as those of any two kernels are.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { native } from "./binding.ts";
import { cudaProperties, isCudaAvailable } from "./cuda.ts";
import type { Device } from "./dtype.ts";
import { fp8RowsKernel } from "./kernels/fp8-kernel.ts";
import { hasOp, op } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

/** The largest number. */
const maxFp8 = 448;

/** Codes as bytes, [S, I], and a float32 scale per row, [S, 1]. */
export interface Fp8Rows {
  readonly codes: Tensor;
  readonly scales: Tensor;
}

/** Whether this device multiplies 8-bit floats: an Ada or Hopper GPU or a later one, with a libtorch that can ask it to. */
export function hasFp8(device: Device): boolean {
  if (!device.startsWith("cuda") || !native.builtWithCuda || !hasOp("aten::_scaled_mm") || !isCudaAvailable())
    return false;
  const { computeMajor, computeMinor } = cudaProperties(Number(device.split(":")[1] ?? 0));
  return 10 * computeMajor + computeMinor >= 89;
}

/** Throws for a GPU without 8-bit floats. On the CPU they are emulated. @param what asks for them, as the user wrote it */
export function expectFp8(device: Device, what: string): void {
  if (device === "cpu" || hasFp8(device)) return;
  throw new RerollError(
    "UNSUPPORTED_FEATURE",
    `${what} is "fp8", and ${device} has no products of 8-bit floats: that takes a GPU of compute capability 8.9 or later (L4, H100) and libtorch 2.5 or later; this is libtorch ${native.torchVersion}. Leave it out.`,
    { device },
  );
}

/** Codes and scales of the rows of a matrix, on a device that `hasFp8`. */
export function fp8Rows(x_SI: Tensor): Fp8Rows {
  return fp8RowsKernel(x_SI.contiguous());
}

/** The values that the rows of x stand for after `fp8Rows`, in the type of x; on any device, for any number of leading dimensions. */
export function fp8Rounded(x: Tensor): Tensor {
  const wide = x.to("float32");
  const scales = fp8Scales(wide);
  return roundUnits(wide.div(scales)).mul(scales).to(x.dtype);
}

/** One scale for every row: what its largest magnitude is divided by to become 448, and 1 for a row of zeros. */
function fp8Scales(x: Tensor): Tensor {
  const largest = x.abs().amax(-1, true);
  return largest.div(maxFp8).maskedFill(largest.eq(0), 1);
}

/** The nearest 8-bit float, halves to even. Below 2^-6 steps stay as wide as they are there. */
function roundUnits(x: Tensor): Tensor {
  const [, exponents] = ops.frexp(x);
  const steps = exponents.clamp(minExponent).sub(numMantissaBits);
  return ops.ldexp(ops.ldexp(x, steps.neg()).round(), steps).clamp(-maxFp8, maxFp8);
}

// As frexp counts: a number is its mantissa, at least 1/2 and below 1, times 2 to the exponent.
const minExponent = -5;
const numMantissaBits = 4;

/** x W' + bias in bfloat16 or the type that is asked for, of codes and scales of both. Both widths must be multiples of 16. */
export function fp8Product(x: Fp8Rows, weight: Fp8Rows, bias: Tensor | null, dtype: Tensor["dtype"]): Tensor {
  const units = (codes: Tensor) => ops.viewAs(codes, "float8_e4m3fn");
  return ops.scaledMm(units(x.codes), units(weight.codes).t(), x.scales, weight.scales.t(), bias, null, dtype);
}

const ops = {
  frexp: op("aten::frexp.Tensor"),
  ldexp: op("aten::ldexp.Tensor"),
  viewAs: op("aten::view.dtype"),
  scaledMm: op("aten::_scaled_mm"),
} as const;

/** Element types, and the typed array that holds the values of each. */
import { RerollError } from "../errors/reroll-error.ts";

/** The element type of a tensor. */
export type DType =
  | "float32"
  | "float64"
  | "bfloat16"
  | "float16"
  | "int64"
  | "int32"
  | "int16"
  | "int8"
  | "uint8"
  | "bool"
  | "complex64"
  | "complex128"
  /** A sign, four bits of exponent and three of mantissa; in libtorch 2.1 and later. See fp8.ts. */
  | "float8_e4m3fn";

/** The device of a tensor: `cpu`, `cuda`, `cuda:1`. */
export type Device = string;

/** The arrays that tensors are made from and read into. */
export type TensorData =
  | Float32Array
  | Float64Array
  | BigInt64Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint8Array
  | Uint16Array;

/**
 * The element type that a typed array holds. A Uint16Array holds bits and has no type of its own: it takes the one that
 * is asked for.
 */
export function dtypeOf(data: TensorData, wanted?: DType): DType {
  if (data instanceof Float32Array) return "float32";
  if (data instanceof Float64Array) return "float64";
  if (data instanceof BigInt64Array) return "int64";
  if (data instanceof Int32Array) return "int32";
  if (data instanceof Int16Array) return "int16";
  if (data instanceof Int8Array) return "int8";
  if (data instanceof Uint8Array) return "uint8";
  const is16Bit = wanted === "bfloat16" || wanted === "float16" || wanted === "int16";
  if (data instanceof Uint16Array && is16Bit) return wanted;
  if (data instanceof Uint16Array) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `a Uint16Array has no element type of its own: got dtype ${wanted}. ` +
        "Name the type its bits have: bfloat16, float16 or int16.",
    );
  }
  throw new RerollError(
    "INVALID_ARGUMENT",
    `no tensor holds the values of a ${Object.prototype.toString.call(data).slice(8, -1)}. Use a Float32Array, ` +
      "Float64Array, BigInt64Array, Int32Array, Int16Array, Int8Array, Uint8Array or Uint16Array.",
  );
}

/** An array that can take `numel` values of this type, bit for bit. */
export function arrayFor(dtype: DType, numel: number): TensorData {
  switch (dtype) {
    case "float32":
      return new Float32Array(numel);
    case "float64":
      return new Float64Array(numel);
    case "bfloat16":
    case "float16":
      return new Uint16Array(numel);
    case "int64":
      return new BigInt64Array(numel);
    case "int32":
      return new Int32Array(numel);
    case "int16":
      return new Int16Array(numel);
    case "int8":
      return new Int8Array(numel);
    case "uint8":
    case "bool":
    case "float8_e4m3fn":
      return new Uint8Array(numel);
    case "complex64":
      return new Float32Array(2 * numel);
    case "complex128":
      return new Float64Array(2 * numel);
  }
}

/** Bytes of one element. */
export function bytesOf(dtype: DType): number {
  return arrayFor(dtype, 1).byteLength;
}

/** Whether gradients can flow through this type. */
export function isFloating(dtype: DType): boolean {
  return dtype === "float32" || dtype === "float64" || dtype === "bfloat16" || dtype === "float16";
}

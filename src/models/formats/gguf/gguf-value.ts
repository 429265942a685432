/**
 * A metadata value of a GGUF file.
 * Arrays of numbers are typed arrays of the type in the file; 64-bit scalars are numbers where that is exact, else bigints.
 */
export type GgufValue = GgufScalar | GgufArray;

/** A metadata value that is not an array. */
export type GgufScalar = string | number | bigint | boolean;

/** A metadata array. */
export type GgufArray =
  | readonly string[]
  | readonly boolean[]
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | BigUint64Array
  | BigInt64Array
  | Float64Array;

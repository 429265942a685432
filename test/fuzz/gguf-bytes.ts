/**
 * Builds the bytes of a GGUF file for tests, field by field, so that a test can lie in any of them.
 */

/** A metadata entry: `value` is what follows the type number. */
export interface GgufEntry {
  readonly key: string;
  readonly type: number;
  readonly value: Uint8Array;
}

/** A tensor as the header describes it; `dimensions` are in file order, fastest first. */
export interface GgufTensorEntry {
  readonly name: string;
  readonly dimensions: readonly (number | bigint)[];
  readonly type: number;
  readonly offset: number | bigint;
}

/** A whole file. Counts follow the lists unless stated. */
export interface GgufParts {
  readonly version?: number;
  readonly numTensors?: number | bigint;
  readonly numKeys?: number | bigint;
  readonly metadata?: readonly GgufEntry[];
  readonly tensors?: readonly GgufTensorEntry[];
  readonly data?: Uint8Array;
  readonly alignment?: number;
}

/** The bytes of a file: header, padding to the alignment, data. */
export function ggufBytes(parts: GgufParts): Uint8Array {
  const { version = 3, metadata = [], tensors = [], data = new Uint8Array(0), alignment = 32 } = parts;
  const header = concatBytes(
    new TextEncoder().encode("GGUF"),
    uint32(version),
    uint64(parts.numTensors ?? tensors.length),
    uint64(parts.numKeys ?? metadata.length),
    ...metadata.flatMap(({ key, type, value }) => [text(key), uint32(type), value]),
    ...tensors.flatMap(({ name, dimensions, type, offset }) => [
      text(name),
      uint32(dimensions.length),
      ...dimensions.map(uint64),
      uint32(type),
      uint64(offset),
    ]),
  );
  const padding = (alignment - (header.byteLength % alignment)) % alignment;
  return concatBytes(header, new Uint8Array(padding), data);
}

export function uint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

export function uint64(value: number | bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

export function float32(...values: number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}

/** A text as GGUF stores it: length, then UTF-8. */
export function text(value: string): Uint8Array {
  const utf8 = new TextEncoder().encode(value);
  return concatBytes(uint64(utf8.byteLength), utf8);
}

/** The value of an array entry. */
export function array(type: number, ...elements: Uint8Array[]): Uint8Array {
  return concatBytes(uint32(type), uint64(elements.length), ...elements);
}

export function concatBytes(...pieces: Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(pieces));
}

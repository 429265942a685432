/**
 * Reads the header of a GGUF file, version 2 or 3, little-endian: bytes in, checked metadata and tensor places out.
 *
 * A header that comes back can be trusted: names are unique, every tensor lies inside the file with exactly the bytes its shape needs,
 * and they follow each other as llama.cpp demands. Why this is not `@huggingface/gguf`: docs/decisions/0004-gguf-reader.md.
 */

import { RerollError } from "../../../errors/reroll-error.ts";
import type { ByteSource } from "../byte-source.ts";
import { countElements } from "../count-elements.ts";
import { showName } from "../show-name.ts";
import { type GgmlType, ggmlTypeOf, ggmlTypes } from "./ggml-type.ts";
import { GgufCursor } from "./gguf-cursor.ts";
import type { GgufArray, GgufScalar, GgufValue } from "./gguf-value.ts";

/** One tensor of a GGUF file. */
export interface GgufTensor {
  readonly name: string;
  /** Slowest dimension first, as in PyTorch; the file has it the other way round. */
  readonly shape: readonly number[];
  readonly type: GgmlType;
  /** Offset of the first byte, counted from the start of the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The contents of a GGUF file, without the values of its tensors. */
export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** The tensors by name, in the order of their bytes. */
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  /** Byte of the file at which tensor data begins. */
  readonly dataOffset: number;
}

/** Parses and checks a header; reads no more of the source than the header takes. */
export function parseGgufHeader(source: ByteSource): GgufHeader {
  const cursor = new GgufCursor(source);
  const version = readVersion(cursor, source.name);
  const numTensors = readCount(cursor, "the number of tensors", maxTensors);
  const numKeys = readCount(cursor, "the number of metadata keys", maxKeys);
  const metadata = readMetadata(cursor, numKeys);
  const alignment = readAlignment(cursor, metadata);
  const claims = readTensorClaims(cursor, numTensors);
  const dataOffset = padTo(cursor.position, alignment);
  const tensors = placeTensors(cursor, claims, dataOffset, alignment, source.size);
  return { version, metadata, tensors, dataOffset };
}

/** Far above any model: expert weights are stacked, so the largest have a few thousand tensors. */
const maxTensors = 1_000_000;
const maxKeys = 65_536;
/** Vocabularies have up to a quarter of a million tokens. */
const maxListLength = 2 ** 24;
/** The limits of ggml on a tensor. */
const maxDimensions = 4;
const maxNameLength = 1024;
const defaultAlignment = 32;

function readVersion(cursor: GgufCursor, fileName: string): number {
  if (cursor.uint32("the magic number") !== 0x46554747) throw cursor.fail('it does not begin with "GGUF"');
  const version = cursor.uint32("the version");
  if (version === 2 || version === 3) return version;
  const isBigEndian = (version & 0xffff) === 0 && version !== 0;
  const got = isBigEndian ? "a big-endian file" : `version ${version}`;
  throw new RerollError(
    "GGUF_UNSUPPORTED",
    `${fileName} is ${got}. Supported: little-endian GGUF of version 2 or 3. Convert the model again with a current llama.cpp.`,
    { fileName, version },
  );
}

function readCount(cursor: GgufCursor, field: string, limit: number): number {
  const count = cursor.count(field);
  if (count > limit) throw cursor.fail(`${field} is ${count} and at most ${limit} are allowed`);
  return count;
}

function readMetadata(cursor: GgufCursor, numKeys: number): Map<string, GgufValue> {
  // A key takes at least its length, one character, a type and a one-byte value.
  cursor.expectRoom(numKeys, 14, `metadata of ${numKeys} keys`);
  const metadata = new Map<string, GgufValue>();
  for (let index = 0; index < numKeys; index++) {
    const key = readName(cursor, `metadata key ${index}`);
    if (metadata.has(key)) throw cursor.fail(`the key ${showName(key)} is there twice`);
    metadata.set(key, readValue(cursor, `the key ${showName(key)}`));
  }
  return metadata;
}

function readValue(cursor: GgufCursor, field: string): GgufValue {
  const type = cursor.uint32(`the type of ${field}`);
  if (type !== arrayTypeId) return readScalar(cursor, type, field);
  const elementType = cursor.uint32(`the element type of ${field}`);
  const length = cursor.count(`the length of ${field}`);
  return readArray(cursor, elementType, length, field);
}

const stringTypeId = 8;
const arrayTypeId = 9;

function readScalar(cursor: GgufCursor, type: number, field: string): GgufScalar {
  if (type === stringTypeId) return cursor.string(field);
  const read = scalarReaders.get(type);
  if (read === undefined) throw cursor.fail(`${field} has value type ${type} and the known ones are 0 to 12`);
  return read(cursor, field);
}

const scalarReaders = new Map<number, (cursor: GgufCursor, field: string) => GgufScalar>([
  [0, (cursor, field) => cursor.uint8(field)],
  [1, (cursor, field) => cursor.int8(field)],
  [2, (cursor, field) => cursor.uint16(field)],
  [3, (cursor, field) => cursor.int16(field)],
  [4, (cursor, field) => cursor.uint32(field)],
  [5, (cursor, field) => cursor.int32(field)],
  [6, (cursor, field) => cursor.float32(field)],
  [7, (cursor, field) => cursor.boolean(field)],
  [10, (cursor, field) => narrow(cursor.uint64(field))],
  [11, (cursor, field) => narrow(cursor.int64(field))],
  [12, (cursor, field) => cursor.float64(field)],
]);

/** A number where that is exact. */
function narrow(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function readArray(cursor: GgufCursor, elementType: number, length: number, field: string): GgufArray {
  if (elementType === stringTypeId) return readList(cursor, length, 8, field, () => cursor.string(field));
  if (elementType === booleanTypeId) return readList(cursor, length, 1, field, () => cursor.boolean(field));
  const numeric = numericArrays.get(elementType);
  if (numeric === undefined) {
    throw cursor.fail(
      `${field} is an array of type ${elementType}; arrays of numbers, booleans and texts are allowed, not of arrays`,
    );
  }
  cursor.expectRoom(length, numeric.bytesEach, field);
  return numeric.view(cursor.bytes(length * numeric.bytesEach, field).buffer);
}

const booleanTypeId = 7;

/** Booleans and texts, which become JavaScript objects and so cost more memory than they take in the file. */
function readList<Item>(
  cursor: GgufCursor,
  length: number,
  bytesEach: number,
  field: string,
  read: () => Item,
): Item[] {
  if (length > maxListLength)
    throw cursor.fail(`${field} has ${length} elements and at most ${maxListLength} are allowed`);
  cursor.expectRoom(length, bytesEach, field);
  const items: Item[] = [];
  for (let index = 0; index < length; index++) items.push(read());
  return items;
}

const numericArrays = new Map<number, { bytesEach: number; view: (buffer: ArrayBuffer) => GgufArray }>([
  [0, { bytesEach: 1, view: (buffer) => new Uint8Array(buffer) }],
  [1, { bytesEach: 1, view: (buffer) => new Int8Array(buffer) }],
  [2, { bytesEach: 2, view: (buffer) => new Uint16Array(buffer) }],
  [3, { bytesEach: 2, view: (buffer) => new Int16Array(buffer) }],
  [4, { bytesEach: 4, view: (buffer) => new Uint32Array(buffer) }],
  [5, { bytesEach: 4, view: (buffer) => new Int32Array(buffer) }],
  [6, { bytesEach: 4, view: (buffer) => new Float32Array(buffer) }],
  [10, { bytesEach: 8, view: (buffer) => new BigUint64Array(buffer) }],
  [11, { bytesEach: 8, view: (buffer) => new BigInt64Array(buffer) }],
  [12, { bytesEach: 8, view: (buffer) => new Float64Array(buffer) }],
]);

function readAlignment(cursor: GgufCursor, metadata: ReadonlyMap<string, GgufValue>): number {
  const alignment = metadata.get("general.alignment") ?? defaultAlignment;
  if (typeof alignment === "number" && alignment > 0 && Number.isInteger(Math.log2(alignment))) return alignment;
  throw cursor.fail(`general.alignment is ${showName(String(alignment))} and must be a power of two`);
}

/** A tensor as the header describes it; its offset counts from the start of the data. */
interface TensorClaim {
  readonly name: string;
  readonly shape: readonly number[];
  readonly typeId: number;
  readonly offset: number;
}

function readTensorClaims(cursor: GgufCursor, numTensors: number): readonly TensorClaim[] {
  // A tensor takes at least the length of its name, its rank, its type and its offset.
  cursor.expectRoom(numTensors, 24, `the list of ${numTensors} tensors`);
  const claims: TensorClaim[] = [];
  for (let index = 0; index < numTensors; index++) {
    const name = readName(cursor, `the name of tensor ${index}`);
    const tensor = `tensor ${showName(name)}`;
    const rank = cursor.uint32(`the rank of ${tensor}`);
    if (rank > maxDimensions)
      throw cursor.fail(`${tensor} has ${rank} dimensions and at most ${maxDimensions} are allowed`);
    const shape = Array.from({ length: rank }, () => cursor.count(`a dimension of ${tensor}`)).reverse();
    const typeId = cursor.uint32(`the type of ${tensor}`);
    claims.push({ name, shape, typeId, offset: cursor.count(`the offset of ${tensor}`) });
  }
  return claims;
}

function readName(cursor: GgufCursor, field: string): string {
  const name = cursor.string(field);
  if (name === "" || name.length > maxNameLength) {
    throw cursor.fail(`${field} has ${name.length} characters and must have 1 to ${maxNameLength}`);
  }
  if (name.includes("\ufffd")) throw cursor.fail(`${field}, ${showName(name)}, is not UTF-8`);
  return name;
}

/** Each tensor must begin where the one before it ends, padded to the alignment, and end inside the file. */
function placeTensors(
  cursor: GgufCursor,
  claims: readonly TensorClaim[],
  dataOffset: number,
  alignment: number,
  fileSize: number,
): Map<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>();
  let expected = 0;
  for (const { name, shape, typeId, offset } of claims) {
    const tensor = `tensor ${showName(name)}`;
    if (tensors.has(name)) throw cursor.fail(`${tensor} is there twice`);
    const type = ggmlTypeOf(typeId);
    if (type === undefined) throw cursor.fail(`${tensor} has type number ${typeId}, which reroll does not know`);
    const byteLength = countBytes(cursor, tensor, shape, type);
    if (offset !== expected) throw cursor.fail(`${tensor} is at byte ${offset} of the data and must be at ${expected}`);
    if (dataOffset + offset + byteLength > fileSize) {
      throw cursor.fail(`${tensor} ends at byte ${dataOffset + offset + byteLength} and the file has ${fileSize}`);
    }
    tensors.set(name, { name, shape, type, byteOffset: dataOffset + offset, byteLength });
    expected = padTo(offset + byteLength, alignment);
  }
  return tensors;
}

function countBytes(cursor: GgufCursor, tensor: string, shape: readonly number[], type: GgmlType): number {
  const { blockValues, blockBytes } = ggmlTypes[type];
  const rowLength = shape.at(-1) ?? 1;
  if (rowLength % blockValues !== 0) {
    throw cursor.fail(`${tensor} has rows of ${rowLength} values and ${type} needs a multiple of ${blockValues}`);
  }
  const byteLength = (countElements(shape) / blockValues) * blockBytes;
  if (!Number.isSafeInteger(byteLength)) throw cursor.fail(`${tensor} has shape [${shape}], more than 2^53 bytes`);
  return byteLength;
}

function padTo(position: number, alignment: number): number {
  return Math.ceil(position / alignment) * alignment;
}

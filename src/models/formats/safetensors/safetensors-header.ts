/**
 * Reads the header of a safetensors file: bytes in, a checked description of every tensor out.
 *
 * A header that comes back can be trusted: every tensor lies inside the file, has the bytes its shape needs, overlaps no other,
 * and together they cover the data without a hole. The official format demands the last point, so that a file cannot
 * carry hidden content, and files that break it are refused here too.
 */

import { isUtf8 } from "node:buffer";
import { basename } from "node:path";
import { RerollError } from "../../../errors/reroll-error.ts";
import { countElements } from "../count-elements.ts";
import { readExactly } from "../read-exactly.ts";
import { showName } from "../show-name.ts";
import { withOpenFile } from "../with-open-file.ts";
import { isSafetensorsDtype, type SafetensorsDtype, safetensorsDtypeBytes } from "./safetensors-dtype.ts";
import { parseSafetensorsJson, type RawSafetensorsEntry } from "./safetensors-json.ts";

/** The type, shape and place of one tensor. `start` and `end` count from `dataOffset`, as in the file. */
interface SafetensorsTensor {
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  readonly start: number;
  readonly end: number;
  /** True when the tensor's place in the file is a multiple of its element size, so a mapped file can be viewed without a copy. */
  readonly isAligned: boolean;
}

/** The contents of a safetensors file, without the values of its tensors. */
export interface SafetensorsHeader {
  /** The tensors by name, in the order of their bytes in the file. */
  readonly tensors: ReadonlyMap<string, SafetensorsTensor>;
  readonly metadata: Readonly<Record<string, string>>;
  /** Byte of the file at which the data begins. */
  readonly dataOffset: number;
}

/** The format's own limit on the JSON, in bytes. */
export const maxSafetensorsHeaderBytes = 100_000_000;

/**
 * Parses and checks a header.
 * @param bytes the first bytes of the file: the 8-byte length and at least the JSON it announces
 * @param fileSize size of the whole file, which `bytes` may be a part of
 * @param fileName only for messages
 */
export function parseSafetensorsHeader(bytes: Uint8Array, fileSize: number, fileName: string): SafetensorsHeader {
  const fail = (what: string) => invalidFile(fileName, what);
  const dataOffset = lengthBytes + readHeaderLength(bytes, fileSize, fileName);
  if (bytes.byteLength < dataOffset)
    throw fail(`the header needs ${dataOffset} bytes and only ${bytes.byteLength} came`);
  const json = bytes.subarray(lengthBytes, dataOffset);
  if (!isUtf8(json)) throw fail("the header is not UTF-8");
  const raw = parseSafetensorsJson(new TextDecoder("utf-8", { ignoreBOM: true }).decode(json), fail);
  const placed = raw.entries.map((entry) => placeTensor(entry, dataOffset, fail));
  placed.sort(([, left], [, right]) => left.start - right.start || left.end - right.end);
  checkCoverage(placed, fileSize - dataOffset, fail);
  return { tensors: new Map(placed), metadata: raw.metadata, dataOffset };
}

/** Reads the header of a file on disk and nothing else of it. */
export function readSafetensorsHeader(path: string): SafetensorsHeader {
  return withOpenFile(path, (descriptor, size) => {
    const start = new Uint8Array(Math.min(lengthBytes, size));
    readExactly(descriptor, start, 0, path);
    const header = new Uint8Array(lengthBytes + readHeaderLength(start, size, basename(path)));
    readExactly(descriptor, header, 0, path);
    return parseSafetensorsHeader(header, size, basename(path));
  });
}

const lengthBytes = 8;

function readHeaderLength(bytes: Uint8Array, fileSize: number, fileName: string): number {
  if (bytes.byteLength < lengthBytes || fileSize < lengthBytes) {
    const size = Math.min(bytes.byteLength, fileSize);
    throw invalidFile(fileName, `it has ${size} bytes and a safetensors file begins with an 8-byte length`);
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset, lengthBytes).getBigUint64(0, true);
  if (length > BigInt(maxSafetensorsHeaderBytes)) {
    throw invalidFile(
      fileName,
      `its header claims ${length} bytes and at most ${maxSafetensorsHeaderBytes} are allowed`,
    );
  }
  if (lengthBytes + Number(length) > fileSize) {
    throw invalidFile(fileName, `its header claims ${length} bytes but the file has ${fileSize} bytes in all`);
  }
  return Number(length);
}

function placeTensor(
  { name, dtype, shape, dataOffsets }: RawSafetensorsEntry,
  dataOffset: number,
  fail: (what: string) => RerollError,
): [string, SafetensorsTensor] {
  const tensor = `tensor ${showName(name)}`;
  if (!isSafetensorsDtype(dtype)) {
    const known = Object.keys(safetensorsDtypeBytes).join(", ");
    throw fail(`${tensor} has dtype ${showName(dtype)} and the known ones are ${known}`);
  }
  const [start, end] = dataOffsets;
  if (start === undefined || end === undefined || dataOffsets.length !== 2) {
    throw fail(`${tensor} has ${dataOffsets.length} data_offsets and needs a start and an end`);
  }
  if (end < start) throw fail(`${tensor} ends at byte ${end}, before its start at ${start}`);
  const elementBytes = safetensorsDtypeBytes[dtype];
  const needed = countElements(shape) * elementBytes;
  if (!Number.isSafeInteger(needed))
    throw fail(`${tensor} has a shape of more than 2^53 bytes: [${shape.slice(0, 8)}]`);
  if (end - start !== needed) {
    throw fail(`${tensor} has ${end - start} bytes but shape [${shape.slice(0, 8)}] of ${dtype} needs ${needed}`);
  }
  return [name, { dtype, shape, start, end, isAligned: (dataOffset + start) % elementBytes === 0 }];
}

/** Every tensor begins where the one before it ends, and the last one ends with the file. */
function checkCoverage(
  placed: readonly [string, SafetensorsTensor][],
  dataBytes: number,
  fail: (what: string) => RerollError,
): void {
  let covered = 0;
  for (const [name, { start, end }] of placed) {
    const tensor = `tensor ${showName(name)}`;
    if (end > dataBytes) throw fail(`${tensor} ends at byte ${end} of the data and there are ${dataBytes}`);
    if (start < covered)
      throw fail(`${tensor} starts at byte ${start}, inside the tensor before it, which ends at ${covered}`);
    if (start > covered) throw fail(`bytes ${covered} to ${start} of the data, before ${tensor}, belong to no tensor`);
    covered = end;
  }
  if (covered !== dataBytes)
    throw fail(`bytes ${covered} to ${dataBytes} of the data, at the end, belong to no tensor`);
}

function invalidFile(fileName: string, what: string): RerollError {
  return new RerollError(
    "SAFETENSORS_INVALID",
    `${fileName} is not a valid safetensors file: ${what}. Download or save it again; a broken transfer is the usual cause.`,
    { fileName },
  );
}

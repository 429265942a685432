/**
 * Writes a safetensors file from tensors that produce their bytes one at a time.
 *
 * Promises: at most one tensor is asked for its bytes at once; the file appears under its name only when it is complete
 * and on disk; nothing half-written stays after an error; every tensor is aligned to its element size.
 */

import { RerollError } from "../../../errors/reroll-error.ts";
import { replaceFileSync } from "../../../files/replace-file.ts";
import { countElements } from "../count-elements.ts";
import { showName } from "../show-name.ts";
import { isSafetensorsDtype, type SafetensorsDtype, safetensorsDtypeBytes } from "./safetensors-dtype.ts";
import { maxSafetensorsHeaderBytes } from "./safetensors-header.ts";

/** A tensor to write. */
export interface SafetensorsSource {
  readonly name: string;
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  /** The little-endian bytes, whole or in pieces. Called once, when the writer has reached this tensor. */
  bytes(): Uint8Array | Iterable<Uint8Array>;
}

/**
 * Writes `path`, replacing what is there.
 * Tensors are laid out by falling element size, as the official writer does, because that keeps each one aligned; within a size the given order stays.
 * @param metadata free text pairs; transformers refuses a file whose `format` is not one it knows, hence the default
 */
export function writeSafetensors(
  path: string,
  tensors: readonly SafetensorsSource[],
  metadata: Readonly<Record<string, string>> = { format: "pt" },
): void {
  const sized = tensors.map((tensor) => ({ dtype: tensor.dtype, tensor, byteLength: countBytes(tensor) }));
  const ordered = inFileOrder(sized);
  const header = buildHeader(ordered, metadata);
  replaceFileSync(path, (append) => {
    append(header);
    for (const { tensor, byteLength } of ordered) appendTensor(tensor, byteLength, append);
  });
}

/** Tensors as the writer asks for them. */
export function inFileOrder<Source extends Pick<SafetensorsSource, "dtype">>(tensors: readonly Source[]): Source[] {
  return tensors.toSorted((left, right) => safetensorsDtypeBytes[right.dtype] - safetensorsDtypeBytes[left.dtype]);
}

interface SizedTensor {
  readonly tensor: SafetensorsSource;
  readonly byteLength: number;
}

function countBytes({ name, dtype, shape }: SafetensorsSource): number {
  if (!isSafetensorsDtype(dtype)) {
    throw invalidTensor(
      name,
      `has dtype ${showName(String(dtype))}. Allowed: ${Object.keys(safetensorsDtypeBytes).join(", ")}.`,
    );
  }
  const byteLength = countElements(shape) * safetensorsDtypeBytes[dtype];
  if (!Number.isSafeInteger(byteLength)) {
    throw invalidTensor(
      name,
      `has shape [${shape}]. Every size must be a non-negative integer and the product below 2^53.`,
    );
  }
  return byteLength;
}

function buildHeader(ordered: readonly SizedTensor[], metadata: Readonly<Record<string, string>>): Uint8Array {
  const entries = new Map<string, unknown>([["__metadata__", metadata]]);
  let start = 0;
  for (const { tensor, byteLength } of ordered) {
    const { name, dtype, shape } = tensor;
    if (entries.has(name)) throw invalidTensor(name, "is given twice or has the reserved name. Names must be unique.");
    entries.set(name, { dtype, shape, data_offsets: [start, start + byteLength] });
    start += byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const paddedLength = Math.ceil(json.byteLength / headerAlignment) * headerAlignment;
  if (paddedLength > maxSafetensorsHeaderBytes) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `The header of ${ordered.length} tensors takes ${paddedLength} bytes and the format allows ${maxSafetensorsHeaderBytes}. ` +
        "Write several files, or less metadata.",
    );
  }
  const header = new Uint8Array(8 + paddedLength).fill(space);
  new DataView(header.buffer).setBigUint64(0, BigInt(paddedLength), true);
  header.set(json, 8);
  return header;
}

const headerAlignment = 8;
const space = 0x20;

function appendTensor(tensor: SafetensorsSource, byteLength: number, append: (bytes: Uint8Array) => void): void {
  const bytes = tensor.bytes();
  let written = 0;
  for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) {
    written += piece.byteLength;
    if (written > byteLength) break;
    append(piece);
  }
  if (written !== byteLength) {
    const amount = written > byteLength ? `at least ${written}` : `${written}`;
    throw invalidTensor(
      tensor.name,
      `gave ${amount} bytes but shape [${tensor.shape}] of ${tensor.dtype} needs ${byteLength}. bytes() must give exactly the tensor.`,
    );
  }
}

function invalidTensor(name: string, what: string): RerollError {
  return new RerollError("INVALID_ARGUMENT", `Tensor ${showName(name)} ${what}`, { name });
}

/**
 * Opens a GGUF file: its metadata and its tensors, as they are stored.
 *
 * Only the header is read at opening. Each read opens the file anew, so nothing has to be closed, and streams through
 * a buffer of about 1 MiB, so memory is that of the values asked for.
 */

import { basename } from "node:path";
import { nearestName } from "../../../errors/nearest-name.ts";
import { RerollError } from "../../../errors/reroll-error.ts";
import { countElements } from "../count-elements.ts";
import { readExactly } from "../read-exactly.ts";
import { showName } from "../show-name.ts";
import { withOpenFile } from "../with-open-file.ts";
import { ggmlTypes } from "./ggml-type.ts";
import { dequantizableTypes, dequantize, isDequantizable } from "./gguf-dequantize.ts";
import { type GgufHeader, type GgufTensor, parseGgufHeader } from "./gguf-header.ts";

/** An open GGUF file. */
export interface GgufFile {
  readonly path: string;
  readonly header: GgufHeader;
  /** The values of a tensor under its name in the file, row after row, as they are stored. */
  readTensor(name: string): Float32Array;
  /** The same for `count` values from value `first` on; both are multiples of the row length. */
  readValues(name: string, first: number, count: number): Float32Array;
}

/** Reads and checks the header of a file. */
export function openGguf(path: string): GgufFile {
  const header = withOpenFile(path, (descriptor, size) =>
    parseGgufHeader({
      name: basename(path),
      size,
      read(position, length) {
        const bytes = new Uint8Array(length);
        readExactly(descriptor, bytes, position, path);
        return bytes;
      },
    }),
  );
  return new OpenGgufFile(path, header);
}

class OpenGgufFile implements GgufFile {
  readonly path: string;
  readonly header: GgufHeader;

  constructor(path: string, header: GgufHeader) {
    this.path = path;
    this.header = header;
  }

  readTensor(name: string): Float32Array {
    return this.readValues(name, 0, countElements(this.#tensor(name).shape));
  }

  readValues(name: string, first: number, count: number): Float32Array {
    return readValues(this.path, this.#tensor(name), first, count);
  }

  #tensor(name: string): GgufTensor {
    const { tensors } = this.header;
    const tensor = tensors.get(name);
    if (tensor === undefined) {
      const nearest = nearestName(name, tensors.keys());
      const hint = nearest === undefined ? "" : ` Nearest name in the file: ${showName(nearest)}.`;
      throw new RerollError("TENSOR_NOT_FOUND", `${this.path} has no tensor ${showName(name)}.${hint}`, { name });
    }
    return tensor;
  }
}

/** Values `first` to `first + count` of a tensor; both are multiples of the row length, and so of the block size. */
function readValues(path: string, tensor: GgufTensor, first: number, count: number): Float32Array {
  const { type, byteOffset } = tensor;
  if (!isDequantizable(type)) throw undequantizable(path, tensor);
  const { blockValues, blockBytes } = ggmlTypes[type];
  const values = new Float32Array(count);
  const chunkBlocks = Math.floor(chunkBytes / blockBytes);
  const chunk = new Uint8Array(chunkBlocks * blockBytes);
  withOpenFile(path, (descriptor) => {
    for (let done = 0; done < count; done += chunkBlocks * blockValues) {
      const length = Math.min(chunkBlocks * blockValues, count - done);
      const bytes = chunk.subarray(0, (length / blockValues) * blockBytes);
      readExactly(descriptor, bytes, byteOffset + ((first + done) / blockValues) * blockBytes, path);
      dequantize(type, bytes, values.subarray(done, done + length));
    }
  });
  return values;
}

/** Small enough to stay in a core's cache between the read and the arithmetic. */
const chunkBytes = 2 ** 20;

function undequantizable(path: string, { name, type }: GgufTensor): RerollError {
  return new RerollError(
    "GGUF_UNSUPPORTED",
    `${basename(path)}: tensor ${showName(name)} has type ${type}. Supported: ${dequantizableTypes().join(", ")}. ` +
      "Use a file of another quantization, such as Q4_K_M or Q8_0, or the safetensors release.",
    { path, name, type },
  );
}

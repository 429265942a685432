/**
 * Opens a GGUF file: its metadata and tensors as they are, and the same model as Hugging Face would hold it.
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
import { ggufArchitecture, type HuggingFaceConfig, huggingFaceConfigOf } from "./gguf-config.ts";
import { dequantizableTypes, dequantize, isDequantizable } from "./gguf-dequantize.ts";
import { type GgufHeader, type GgufTensor, parseGgufHeader } from "./gguf-header.ts";
import { ggufTensorRole } from "./gguf-names.ts";
import type { GgufValue } from "./gguf-value.ts";
import { undoRopePermutation } from "./undo-rope-permutation.ts";

/** A weight under its Hugging Face name. `read` loads its values, anew at each call. */
export interface HuggingFaceTensor {
  readonly name: string;
  readonly shape: readonly number[];
  read(): Float32Array;
}

/** An open GGUF file. */
export interface GgufFile {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  /** The values of a tensor under its name in the file, row after row, as they are stored. */
  readTensor(name: string): Float32Array;
  /** The config.json of the model, for the architectures llama (and Mistral), qwen2, qwen3 and qwen3moe. */
  huggingFaceConfig(): HuggingFaceConfig;
  /** Every weight of the model under its Hugging Face name, in the order of the file. Experts come one by one. */
  huggingFaceTensors(): Iterable<HuggingFaceTensor>;
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
  readonly #header: GgufHeader;

  constructor(path: string, header: GgufHeader) {
    this.path = path;
    this.#header = header;
  }

  get metadata(): ReadonlyMap<string, GgufValue> {
    return this.#header.metadata;
  }

  get tensors(): ReadonlyMap<string, GgufTensor> {
    return this.#header.tensors;
  }

  readTensor(name: string): Float32Array {
    const tensor = this.tensors.get(name);
    if (tensor === undefined) {
      const nearest = nearestName(name, this.tensors.keys());
      const hint = nearest === undefined ? "" : ` Nearest name in the file: ${showName(nearest)}.`;
      throw new RerollError("TENSOR_NOT_FOUND", `${this.path} has no tensor ${showName(name)}.${hint}`, { name });
    }
    return readValues(this.path, tensor, 0, countElements(tensor.shape));
  }

  huggingFaceConfig(): HuggingFaceConfig {
    const ropeFactors = this.tensors.has("rope_freqs.weight") ? this.readTensor("rope_freqs.weight") : null;
    return huggingFaceConfigOf(this.#header, ropeFactors, basename(this.path));
  }

  *huggingFaceTensors(): Iterable<HuggingFaceTensor> {
    const config = this.huggingFaceConfig();
    const architecture = ggufArchitecture(this.#header, basename(this.path));
    for (const tensor of this.tensors.values()) {
      const role = ggufTensorRole(tensor.name, architecture);
      switch (role.kind) {
        case "weight":
          yield { name: role.name, shape: tensor.shape, read: () => this.readTensor(tensor.name) };
          break;
        case "rope-permuted":
          yield this.#permutedTensor(tensor, role, config);
          break;
        case "experts":
          yield* this.#expertTensors(tensor, role, config);
          break;
        case "rope-factors":
          break;
        case "unknown":
          throw this.#unexpectedTensor(tensor, `${architecture} models have no such tensor`);
      }
    }
  }

  #permutedTensor(
    tensor: GgufTensor,
    { name, heads }: { readonly name: string; readonly heads: "query" | "key" },
    config: HuggingFaceConfig,
  ): HuggingFaceTensor {
    const numHeads = heads === "query" ? config.num_attention_heads : config.num_key_value_heads;
    const numRows = numHeads * config.head_dim;
    if (tensor.shape[0] !== numRows || numRows === 0) {
      throw this.#unexpectedTensor(tensor, `${numHeads} heads of ${config.head_dim} need ${numRows} rows`);
    }
    return {
      name,
      shape: tensor.shape,
      read: () => undoRopePermutation(this.readTensor(tensor.name), numRows, numHeads),
    };
  }

  *#expertTensors(
    tensor: GgufTensor,
    { nameOf }: { nameOf(expert: number): string },
    config: HuggingFaceConfig,
  ): Iterable<HuggingFaceTensor> {
    const [numExperts, ...shape] = tensor.shape;
    const size = countElements(shape);
    if (numExperts === undefined || numExperts !== config.num_experts || shape.length !== 2 || size === 0) {
      throw this.#unexpectedTensor(tensor, `${config.num_experts} experts need that many matrices`);
    }
    for (let expert = 0; expert < numExperts; expert++) {
      yield { name: nameOf(expert), shape, read: () => readValues(this.path, tensor, expert * size, size) };
    }
  }

  #unexpectedTensor({ name, shape }: GgufTensor, why: string): RerollError {
    return new RerollError(
      "GGUF_UNSUPPORTED",
      `${basename(this.path)} has tensor ${showName(name)} of shape [${shape}], but ${why}. ` +
        "Use the safetensors release of the model.",
      { path: this.path, name },
    );
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

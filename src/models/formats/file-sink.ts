/**
 * Where the files of a model and of its training go: to disk as they are made, or into memory first, so that training goes on while another
 * thread writes them.
 */
import { replaceFileSync } from "../../files/replace-file.ts";
import { noGrad } from "../../torch/autograd.ts";
import { pinned } from "../../torch/create.ts";
import { cudaSynchronize } from "../../torch/cuda.ts";
import { bytesOf } from "../../torch/dtype.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { countElements } from "./count-elements.ts";
import { inFileOrder, writeSafetensors } from "./safetensors/write-safetensors.ts";
import { type TensorSource, tensorSource } from "./tensor-files.ts";

/** Takes files, each whole. */
export interface FileSink {
  bytes(path: string, bytes: Uint8Array): void;
  /** Asks for one tensor after another, in the order of the file. */
  tensors(path: string, tensors: readonly TensorSource[]): void;
}

/** A file in memory: its bytes, or the tensors of a safetensors file. Plain data and tensors, so that it crosses to another thread. */
type HeldFile = { readonly bytes: Uint8Array } | { readonly tensors: ReadonlyMap<string, Tensor> };

/** Files in memory by their paths. */
export type HeldFiles = ReadonlyMap<string, HeldFile>;

/** What is given back where everything was written. */
export const nothingHeld: HeldFiles = new Map();

/** Writes every file at once. */
export const toDisk: FileSink = {
  bytes: (path, bytes) => replaceFileSync(path, (append) => append(bytes)),
  tensors: (path, tensors) => writeSafetensors(path, tensors),
};

/** Takes copies of all files as they are now, up to a number of bytes; a file that would exceed it is written at once. */
export class HoldingSink implements FileSink {
  readonly #files = new Map<string, HeldFile>();
  #bytesLeft: number;
  #usesCuda = false;

  constructor(maxBytes: number) {
    this.#bytesLeft = maxBytes;
  }

  bytes(path: string, bytes: Uint8Array): void {
    if (this.#takes(bytes.byteLength)) this.#files.set(path, { bytes: bytes.slice() });
    else toDisk.bytes(path, bytes);
  }

  tensors(path: string, tensors: readonly TensorSource[]): void {
    const numBytes = tensors.reduce(
      (sum, { tensorDtype, shape }) => sum + countElements(shape) * bytesOf(tensorDtype),
      0,
    );
    if (!this.#takes(numBytes)) {
      toDisk.tensors(path, tensors);
      return;
    }
    const held = inFileOrder(tensors).map(({ name, make }) => [name, this.#copyOf(make)] as const);
    const byName = new Map(held);
    // In the order that was given, which the writer puts into that of the file again.
    this.#files.set(path, { tensors: new Map(tensors.map(({ name }) => [name, byName.get(name)!])) });
  }

  /** What it holds, complete. It belongs to the caller, who writes or frees it. */
  release(): HeldFiles {
    if (this.#usesCuda) cudaSynchronize();
    return this.#files;
  }

  #takes(numBytes: number): boolean {
    const fits = numBytes <= this.#bytesLeft;
    if (fits) this.#bytesLeft -= numBytes;
    return fits;
  }

  /** From a GPU into pinned memory, which it fills by itself: all copies are under way at once, and `release` waits for them. */
  #copyOf(make: () => Tensor): Tensor {
    return tensorScope(() =>
      noGrad(() => {
        const tensor = make().detach();
        if (!tensor.device.startsWith("cuda")) return keep(tensor.clone());
        this.#usesCuda = true;
        return keep(pinned(tensor.shape, tensor.dtype).copy_(tensor, { nonBlocking: true }));
      }),
    );
  }
}

/** Writes files that were held, and frees each one once it is on disk. */
export function writeHeld(files: HeldFiles): void {
  for (const [path, file] of files) {
    if ("bytes" in file) toDisk.bytes(path, file.bytes);
    else
      toDisk.tensors(
        path,
        [...file.tensors].map(([name, tensor]) => tensorSource(name, tensor)),
      );
    freeFile(file);
  }
}

/** Frees the tensors of files; their bytes are for the collector. */
export function freeHeld(files: HeldFiles): void {
  for (const file of files.values()) freeFile(file);
}

function freeFile(file: HeldFile): void {
  if ("tensors" in file) for (const tensor of file.tensors.values()) tensor.dispose();
}

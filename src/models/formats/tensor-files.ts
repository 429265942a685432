/** Tensors in safetensors files: mapped in, and written out. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { DType } from "../../torch/dtype.ts";
import { MappedFile } from "../../torch/mapped-file.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { locateTensor, type ResolvedCheckpoint } from "./resolve-checkpoint.ts";
import type { SafetensorsDtype } from "./safetensors/safetensors-dtype.ts";
import type { SafetensorsSource } from "./safetensors/write-safetensors.ts";

/** The tensors of a checkpoint, over the mapped bytes of its files. */
export class MappedCheckpoint {
  readonly #checkpoint: ResolvedCheckpoint;
  readonly #files = new Map<string, MappedFile>();

  constructor(checkpoint: ResolvedCheckpoint) {
    this.#checkpoint = checkpoint;
  }

  /** A tensor by name, in the type it is stored in. */
  read(name: string): Tensor {
    const place = locateTensor(this.#checkpoint, name);
    const dtype = dtypes[place.dtype];
    if (dtype === undefined) {
      throw new RerollError(
        "UNSUPPORTED_DTYPE",
        `Checkpoint ${this.#checkpoint.path}: weight "${name}" is stored as ${place.dtype}. ` +
          `Supported: ${Object.keys(dtypes).join(", ")}.`,
      );
    }
    return this.#fileAt(place.path).tensorAt(place.byteOffset, dtype, place.shape);
  }

  /** Lets go of the files. Tensors that were read stay valid. */
  dispose(): void {
    for (const file of this.#files.values()) file.dispose();
    this.#files.clear();
  }

  #fileAt(path: string): MappedFile {
    const known = this.#files.get(path);
    if (known !== undefined) return known;
    const file = new MappedFile(path);
    this.#files.set(path, file);
    return file;
  }
}

/** A tensor as the safetensors writer takes it, which can also be had as a tensor. */
export interface TensorSource extends SafetensorsSource {
  readonly tensorDtype: DType;
  /** The tensor, which belongs to the scope that it is called in or to whoever made the source. Called once. */
  make(): Tensor;
}

/** A tensor as the safetensors writer takes it; its bytes are fetched when the writer gets to it. */
export function tensorSource(name: string, tensor: Tensor): TensorSource {
  return laterSource(name, tensor, () => tensor);
}

/** The same for a tensor that is made when the writer gets to it. */
function laterSource(
  name: string,
  { dtype, shape }: { readonly dtype: DType; readonly shape: readonly number[] },
  make: () => Tensor,
): TensorSource {
  const entry = Object.entries(dtypes).find(([, ours]) => ours === dtype);
  if (entry === undefined) {
    throw new RerollError(
      "UNSUPPORTED_DTYPE",
      `Weight "${name}" has type ${dtype}, which safetensors files do not have.`,
    );
  }
  return {
    name,
    dtype: entry[0] as SafetensorsDtype,
    shape,
    tensorDtype: dtype,
    make,
    bytes: () => {
      const values = tensorScope(() => make().toTypedArray());
      return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    },
  };
}

const dtypes: Readonly<Partial<Record<SafetensorsDtype, DType>>> = {
  F64: "float64",
  F32: "float32",
  F16: "float16",
  BF16: "bfloat16",
  I64: "int64",
  I32: "int32",
  I16: "int16",
  I8: "int8",
  U8: "uint8",
  BOOL: "bool",
};

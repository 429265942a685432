/** Files mapped into memory: tensors over their bytes, read from disk when they are touched. */
import { native } from "./binding.ts";
import type { DType } from "./dtype.ts";
import { ObjectHandle } from "./operator.ts";
import { Tensor } from "./tensor.ts";

/**
 * A file in memory. Tensors made from it keep the mapping alive, also after dispose(). Writing to such a tensor never
 * changes the file.
 */
export class MappedFile extends ObjectHandle {
  readonly path: string;
  readonly size: number;

  constructor(path: string) {
    const { handle, size } = native.mapFile(path);
    super(handle);
    this.path = path;
    this.size = size;
  }

  /** The tensor at these bytes; no copy where they are aligned for the type. */
  tensorAt(byteOffset: number, dtype: DType, shape: readonly number[]): Tensor {
    return new Tensor(native.tensorInFile(this.handle, byteOffset, dtype, shape));
  }
}

/**
 * Kernels written here, in the file that needs them: CUDA source in, a typed launch out.
 *
 * Kernels see 16-bit floats through `load` and `store`, which the prelude defines for the element type `T`, so one source
 * serves bfloat16, float16 and float32. Every kernel has a composed form beside it in fused.ts and is tested against it.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { native } from "../binding.ts";
import type { DType } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";

/** An argument of a kernel: tensors by address, numbers of a stated type, and matrices as the copy engine reads them. */
type KernelArgument =
  | Tensor
  | { readonly int: number }
  | { readonly float: number }
  | { readonly tilesOf: Tensor; readonly rows: number };

/** The number of blocks, and of threads in each. */
interface LaunchShape {
  readonly blocks: number;
  readonly threads: number;
  /** Shared memory of a block beside what the source declares. */
  readonly sharedBytes?: number;
  /**
   * The kernel may start before the one in front of it has ended, so that what it does before `awaitPrevious` runs beside that one. It must
   * not write before that, nor read what the kernels before it write. GPUs before Hopper cannot do it: there it waits for the whole of that one.
   */
  readonly overlaps?: boolean;
}

/** A kernel for tensors of any floating type, compiled on first use for each. `name` is its function in the source. */
export function cudaKernel(
  name: string,
  source: string,
): (dtype: DType, shape: LaunchShape, args: readonly KernelArgument[]) => void {
  const compiled = new Map<DType, number>();
  return (dtype, { blocks, threads, sharedBytes = 0, overlaps = false }, args) => {
    if (blocks === 0) return;
    let handle = compiled.get(dtype);
    if (handle === undefined) {
      handle = native.compileKernel(`${preludeFor(dtype)}\n${source}`, name);
      compiled.set(dtype, handle);
    }
    let kinds = "";
    const values: number[] = [];
    for (const arg of args) {
      if ("int" in arg) {
        kinds += "i";
        values.push(arg.int);
      } else if ("float" in arg) {
        kinds += "f";
        values.push(arg.float);
      } else if ("tilesOf" in arg) {
        kinds += "mr";
        values.push(arg.tilesOf.handle, arg.rows);
      } else {
        kinds += "t";
        values.push(arg.handle);
      }
    }
    native.launchKernel(handle, [blocks, 1, 1], [threads, 1, 1], sharedBytes, overlaps && canOverlap(), kinds, values);
  };
}

/** The kernels of one source, each compiled for other constants, which stand in front of it: a launch for every text of those. */
export function cudaKernels(name: string, source: string): (constants: string) => ReturnType<typeof cudaKernel> {
  const known = new Map<string, ReturnType<typeof cudaKernel>>();
  return (constants) => {
    let kernel = known.get(constants);
    if (kernel === undefined) {
      kernel = cudaKernel(name, constants + source);
      known.set(constants, kernel);
    }
    return kernel;
  };
}

/** Whether the kernels can work on this tensor. */
export function hasKernels(tensor: Tensor): boolean {
  return native.builtWithCuda && tensor.device.startsWith("cuda") && tensor.dtype in elementTypes;
}

/** Multiprocessors of the device, for kernels of as many blocks as run at a time. */
export function numProcessors(): number {
  processors ??= native.cudaDeviceProperties().numProcessors;
  return processors;
}

let processors: number | undefined;

function canOverlap(): boolean {
  overlapping ??= native.cudaDeviceProperties().computeMajor >= 9;
  return overlapping;
}

let overlapping: boolean | undefined;

const elementTypes: Readonly<Partial<Record<DType, string>>> = {
  float32: `
typedef float T;
__device__ __forceinline__ float load(T x) { return x; }
__device__ __forceinline__ T store(float x) { return x; }`,
  bfloat16: `
#define ELEMENT "bf16"
typedef unsigned short T;
__device__ __forceinline__ float load(T x) { return __uint_as_float((unsigned)x << 16); }
__device__ __forceinline__ T store(float x) { T y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }`,
  float16: `
#define ELEMENT "f16"
typedef unsigned short T;
__device__ __forceinline__ float load(T x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ __forceinline__ T store(float x) { T y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }`,
};

function preludeFor(dtype: DType): string {
  const element = elementTypes[dtype];
  if (element === undefined) throw new RerollError("CUDA_KERNEL", `There are no kernels for ${dtype}.`);
  return `${element}
// Eight elements at a time: one 16-byte access for 16-bit types, two for float32.
struct alignas(16) Pack { T x[8]; };
// For kernels that overlap: the next one may take its place now; all that the ones before have written is there. Kernels that write weights do not let
// the next one start: it may be one that reads weights before it waits.
__device__ __forceinline__ void letNextStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void awaitPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}`;
}

/**
 * What vLLM takes as Python pickles alone: an id of NCCL, which its ranks read from the store, and places of weights on a GPU.
 */
import { invariant } from "../../errors/reroll-error.ts";
import { bytesOf, type DType } from "../../torch/dtype.ts";
import { type PythonValue, pickle } from "./python-pickle.ts";

/** Bytes of an `ncclUniqueId`. */
const ID_BYTES = 128;

/** The key under which its ranks look for what rank 0 broadcasts first: `StatelessProcessGroup.broadcast_obj`. */
export const NCCL_ID_KEY = "broadcast_from/0/0";

/** An `ncclUniqueId`, a ctypes structure of its `pynccl_wrapper`: ctypes makes `_unpickle(class, (attributes, bytes))` of one. Tried with 0.26 and 0.32. */
export function pickleNcclId(id: Uint8Array): Uint8Array {
  invariant(id.length === ID_BYTES, `an id of NCCL has ${id.length} bytes`);
  const structure = { module: "vllm.distributed.device_communicators.pynccl_wrapper", name: "ncclUniqueId" };
  const call = { module: "_ctypes", name: "_unpickle" };
  return pickle({ call, args: [structure, { tuple: [{ dict: [] }, id] }] });
}

/** A weight that lies on a GPU, contiguous. */
export interface SharedWeight {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly memory: { readonly handle: readonly number[]; readonly offsetBytes: number };
}

/**
 * For every weight, by the GPU's own id, the arguments of `rebuild_cuda_tensor` in torch.multiprocessing.reductions. Nothing is counted and
 * nothing waited for: the sender has synchronized, and keeps the memory until the server has answered.
 */
export function pickleSharedWeights(uuid: string, weights: readonly SharedWeight[]): Uint8Array {
  return pickle(weights.map((weight): PythonValue => ({ dict: [[uuid, { tuple: rebuildArguments(weight) }]] })));
}

function rebuildArguments({ dtype, shape, memory }: SharedWeight): readonly PythonValue[] {
  const strides = shape.map((_, i) => product(shape.slice(i + 1)));
  const device = 0; // vLLM puts its own in place of it.
  const noCounter = [Buffer.from("/reroll-counts-nothing"), 0];
  const noEvent = [new Uint8Array(0), false];
  return [
    ...[torch("Tensor"), { tuple: shape }, { tuple: strides }, 0, torch("UntypedStorage"), torch(dtype), device],
    ...[Uint8Array.from(memory.handle), product(shape) * bytesOf(dtype), memory.offsetBytes, false],
    ...noCounter,
    ...noEvent,
  ];
}

function torch(name: string): PythonValue {
  return { module: "torch", name };
}

function product(sizes: readonly number[]): number {
  return sizes.reduce((size, one) => size * one, 1);
}

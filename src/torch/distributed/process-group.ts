/**
 * A process group: `worldSize` ranks, usually one per process, that take part in collectives together.
 *
 * Every rank must make the same calls in the same order. On a Gloo group the ranks compare what they are about to do and
 * reject with COLLECTIVE_MISMATCH where they disagree; the group stays usable. A lost peer or a timeout breaks the group:
 * PEER_LOST, COLLECTIVE_TIMEOUT or COLLECTIVE_FAILED, and GROUP_BROKEN for every later call.
 *
 * Operations change the tensors they are given, which must be contiguous. From the call until the promise settles the
 * values belong to the operation: do not read or write them. Several operations may be in flight; they start in calling
 * order. A promise waits on a thread of its own, so neither the event loop nor Node's thread pool is blocked. The
 * methods that end in Sync block the calling thread instead, for worker threads that have nothing else to do.
 *
 * A group belongs to the JavaScript thread that made it.
 */

import { native } from "../binding.ts";
import { emptyLike } from "../create.ts";
import type { Device } from "../dtype.ts";
import { ObjectHandle } from "../operator.ts";
import { keep, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";

/** The operation that joins the values of several ranks. The mean is the sum divided by the number of ranks, of floats only. */
export type Reduction = "sum" | "mean" | "max" | "min" | "product";

/** `gloo` for CPU tensors, `nccl` for CUDA tensors. */
export type Backend = "gloo" | "nccl";

/** Which rank of which group this process is. */
interface GroupMembership {
  readonly name: string;
  readonly backend: Backend;
  readonly rank: number;
  readonly worldSize: number;
}

/** Made by joinGroup in rendezvous.ts. */
export class ProcessGroup extends ObjectHandle {
  readonly name: string;
  readonly backend: Backend;
  readonly rank: number;
  readonly worldSize: number;

  constructor(handle: number, { name, backend, rank, worldSize }: GroupMembership) {
    super(handle);
    this.name = name;
    this.backend = backend;
    this.rank = rank;
    this.worldSize = worldSize;
  }

  /** Where a tensor has to be to be moved: where it is, or in host memory for Gloo. */
  deviceFor({ device }: Tensor): Device {
    return this.backend === "gloo" ? "cpu" : device;
  }

  /** Reduces the tensors of all ranks into each of them. Gloo adds 16-bit floats as float32 and rounds once. */
  async allReduce(tensor: Tensor, reduction: Reduction = "sum"): Promise<void> {
    await native.allReduce(this.handle, tensor.handle, reduction);
  }
  allReduceSync(tensor: Tensor, reduction: Reduction = "sum"): void {
    native.allReduceSync(this.handle, tensor.handle, reduction);
  }

  /**
   * Reduces the inputs of all ranks and leaves part r of `worldSize` equal parts in the output of rank r.
   * On Gloo every rank collects its part and reduces it itself: libtorch 1.13 has no other way, and it moves no more.
   */
  async reduceScatter(output: Tensor, input: Tensor, reduction: Reduction = "sum"): Promise<void> {
    await native.reduceScatter(this.handle, output.handle, input.handle, reduction);
  }
  reduceScatterSync(output: Tensor, input: Tensor, reduction: Reduction = "sum"): void {
    native.reduceScatterSync(this.handle, output.handle, input.handle, reduction);
  }

  /** The inputs of all ranks, in the order of ranks, as new tensors that belong to the caller and to no scope. */
  async allGather(input: Tensor): Promise<Tensor[]> {
    const outputs = this.#outputsLike(input);
    await native.allGather(this.handle, handlesOf(outputs), input.handle);
    return outputs;
  }
  allGatherSync(input: Tensor): Tensor[] {
    const outputs = this.#outputsLike(input);
    native.allGatherSync(this.handle, handlesOf(outputs), input.handle);
    return outputs;
  }

  /** Writes the inputs of all ranks into one tensor, one after another. */
  async allGatherInto(output: Tensor, input: Tensor): Promise<void> {
    await native.allGatherInto(this.handle, output.handle, input.handle);
  }
  allGatherIntoSync(output: Tensor, input: Tensor): void {
    native.allGatherIntoSync(this.handle, output.handle, input.handle);
  }

  /** Overwrites the tensor of every rank with that of the root. */
  async broadcast(tensor: Tensor, root = 0): Promise<void> {
    await native.broadcast(this.handle, tensor.handle, root);
  }
  broadcastSync(tensor: Tensor, root = 0): void {
    native.broadcastSync(this.handle, tensor.handle, root);
  }

  /** Waits until every rank has called it. */
  async barrier(): Promise<void> {
    await native.barrier(this.handle);
  }
  barrierSync(): void {
    native.barrierSync(this.handle);
  }

  /**
   * Sends the tensor to a rank that calls `receive` with an equal shape, type and tag. Messages that are equal in these
   * arrive in sending order. Where the two sides do not fit, both run into the timeout.
   */
  async send(tensor: Tensor, to: number, tag = 0): Promise<void> {
    await native.send(this.handle, tensor.handle, to, tag);
  }
  sendSync(tensor: Tensor, to: number, tag = 0): void {
    native.sendSync(this.handle, tensor.handle, to, tag);
  }

  /** Overwrites the tensor with what the other rank sends. */
  async receive(tensor: Tensor, from: number, tag = 0): Promise<void> {
    await native.receive(this.handle, tensor.handle, from, tag);
  }
  receiveSync(tensor: Tensor, from: number, tag = 0): void {
    native.receiveSync(this.handle, tensor.handle, from, tag);
  }

  #outputsLike(input: Tensor): Tensor[] {
    return keep(tensorScope(() => Array.from({ length: this.worldSize }, () => emptyLike(input.detach()))));
  }
}

function handlesOf(tensors: readonly Tensor[]): number[] {
  return tensors.map((tensor) => tensor.handle);
}

/**
 * Handing a tensor to another thread of the process, without a copy.
 *
 * In: a tensor of this thread. Out: a parcel, a plain object that travels in a message; the thread that gets it turns it
 * into a tensor over the same memory. A parcel holds the memory until it is received or discarded, also when the thread
 * that sent it has ended, and can be received once.
 *
 * Nothing orders the two threads: what one writes the other sees at any time. Send after writing, and do not write again
 * before the other side is done. CUDA work of the sender is ordered before the receiver's only on the same stream.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { native } from "./binding.ts";
import { Tensor } from "./tensor.ts";

/** A tensor on its way to another thread. Survives structured clone; means nothing in another process. */
export interface TensorParcel {
  readonly kind: "tensor-parcel";
  readonly number: number;
  readonly processId: number;
  /** The type and shape of the tensor, for error messages: "float32[2, 3]". */
  readonly description: string;
}

/** Leaves a reference to the tensor's memory for another thread. The tensor stays usable here; gradients do not travel. */
export function sendTensor(tensor: Tensor): TensorParcel {
  return {
    kind: "tensor-parcel",
    number: native.sendTensor(tensor.handle),
    processId: process.pid,
    description: native.describe(tensor.handle),
  };
}

/** The tensor of a parcel, over the sender's memory. Belongs to the receiver, which disposes it. */
export function receiveTensor(parcel: TensorParcel): Tensor {
  expectOwnProcess(parcel);
  return new Tensor(native.receiveTensor(parcel.number));
}

/** Drops a parcel that nobody will receive, so that its memory can be freed. */
export function discardParcel(parcel: TensorParcel): void {
  expectOwnProcess(parcel);
  native.discardParcel(parcel.number);
}

/** The number of parcels in this process that wait to be received. */
export function numWaitingParcels(): number {
  return native.waitingParcels();
}

function expectOwnProcess({ processId, description }: TensorParcel): void {
  if (processId === process.pid) return;
  throw new RerollError(
    "FOREIGN_PARCEL",
    `The parcel with ${description} was sent in process ${processId} and this is process ${process.pid}. ` +
      "Parcels travel between threads of one process; between processes use a ProcessGroup.",
  );
}

/** Tensors in calls between threads: their memory is handed over without a copy. Both ends name this carrier. */
import { discardParcel, receiveTensor, sendTensor, type TensorParcel } from "../torch/parcel.ts";
import { Tensor } from "../torch/tensor.ts";
import type { Carrier } from "./luggage.ts";

/**
 * A tensor that is an argument lives on the other side until its call has ended; one that is a result belongs to the caller, and is freed
 * where it came from.
 * The sender must not write to it before the call has ended.
 */
export const tensorCarrier: Carrier<Tensor> = {
  carries: (value): value is Tensor => value instanceof Tensor,
  load: sendTensor,
  unload: (parcel) => receiveTensor(parcel as TensorParcel),
  discard: (parcel) => {
    try {
      discardParcel(parcel as TensorParcel);
    } catch {
      // The other side has received this one.
    }
  },
  free: (tensor) => tensor.dispose(),
};

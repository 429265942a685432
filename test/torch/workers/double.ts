/** Doubles, in place, every tensor it is sent, and sends it back. */
import { parentPort } from "node:worker_threads";
import { receiveTensor, sendTensor, type TensorParcel } from "../../../src/torch/parcel.ts";
import { tensorScope } from "../../../src/torch/scope.ts";

parentPort?.on("message", (parcels: readonly TensorParcel[]) => {
  const answer = tensorScope(() => {
    const tensors = parcels.map(receiveTensor);
    for (const one of tensors) one.mul_(2);
    return { parcels: tensors.map(sendTensor), addresses: tensors.map((one) => one.storageAddress) };
  });
  parentPort?.postMessage(answer);
});

/** Makes a tensor, sends it and ends. */
import { parentPort } from "node:worker_threads";
import { tensor } from "../../../src/torch/create.ts";
import { sendTensor } from "../../../src/torch/parcel.ts";

const sent = tensor([1, 2, 3]);
parentPort?.postMessage({ parcel: sendTensor(sent), storageAddress: sent.storageAddress });

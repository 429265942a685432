/** Sets how many threads its operators use, and tells that number after it has been sent a message and has run an operator. */
import { parentPort, workerData } from "node:worker_threads";
import { native } from "../../../src/torch/binding.ts";
import { ones } from "../../../src/torch/create.ts";

const { count }: { count: number } = workerData;
native.setNumThreads(count);
parentPort?.once("message", () => {
  ones([1_000_000]).sum().item();
  parentPort?.postMessage(native.numThreads());
});
parentPort?.postMessage("set");

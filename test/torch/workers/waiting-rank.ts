/** Joins a group as rank 1, starts collectives that rank 0 does not answer, and says so. */
import { parentPort, workerData } from "node:worker_threads";
import { tensor } from "../../../src/torch/create.ts";
import { joinGroup, openStore } from "../../../src/torch/distributed/rendezvous.ts";

const store = await openStore({ type: "file", path: workerData.storePath, worldSize: 2 });
const group = await joinGroup({
  store,
  backend: "gloo",
  rank: 1,
  worldSize: 2,
  timeoutMs: workerData.timeoutMs,
  listenAt: { host: "127.0.0.1" },
});
const waiting = [group.allReduce(tensor([1])), group.barrier(), group.receive(tensor([1]), 0)];
parentPort?.postMessage("waiting");
await Promise.all(waiting);

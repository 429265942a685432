/** Says that it has started, then computes until it is ended from outside. */
import { parentPort } from "node:worker_threads";
import { ones } from "../../../src/torch/create.ts";
import { tensorScope } from "../../../src/torch/scope.ts";

const kept = ones([64, 64]);
parentPort?.postMessage("started");
for (;;) tensorScope(() => kept.matmul(kept).sum().item());

/** Runs operators, gradients and scopes for `durationMs`; reports what it computed and what it left behind. */
import { parentPort, workerData } from "node:worker_threads";
import { native } from "../../../src/torch/binding.ts";
import { full } from "../../../src/torch/create.ts";
import { tensorScope } from "../../../src/torch/scope.ts";

const { durationMs, value }: { durationMs: number; value: number } = workerData;
const end = performance.now() + durationMs;
let numRounds = 0;
let numWrong = 0;
while (performance.now() < end) {
  const [sum, gradient] = tensorScope(() => {
    const leaf = full([16, 16], value);
    leaf.requiresGrad = true;
    const product = leaf.matmul(leaf).sum();
    product.backward();
    return [product.item(), leaf.grad?.sum().item()];
  });
  // 16^3 products of value * value; each element of the leaf is in 32 of them.
  if (sum !== 4096 * value * value || gradient !== 256 * 32 * value) numWrong++;
  numRounds++;
}
parentPort?.postMessage({ numRounds, numWrong, liveTensors: native.liveTensors() });

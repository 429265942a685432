/** The worker of a threaded trainer: a TrainerHost that answers its owner, one call at a time. */
import { useExactKernels } from "../torch/exact.ts";
import { setNumThreads } from "../torch/memory.ts";
import { tuneProducts } from "../torch/tuned-products.ts";
import { hostInWorker } from "../workers/host-in-process.ts";
import { inTurn } from "../workers/in-turn.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import { TrainerHost } from "./trainer-host.ts";
import type { TrainerSource } from "./trainer-source.ts";

async function openTrainer(source: TrainerSource): Promise<TrainerHost> {
  if (source.numThreads !== undefined) setNumThreads(source.numThreads);
  if (source.isExact) useExactKernels();
  tuneProducts();
  return inTurn(await TrainerHost.create(source));
}

await hostInWorker(openTrainer, { carrier: tensorCarrier });

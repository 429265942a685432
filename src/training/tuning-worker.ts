/** The worker of training on examples: a TuningHost that answers its owner, one call at a time. */
import { setNumThreads } from "../torch/memory.ts";
import { tuneProducts } from "../torch/tuned-products.ts";
import { hostInWorker } from "../workers/host-in-process.ts";
import { inTurn } from "../workers/in-turn.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import { TuningHost, type TuningSource } from "./tuning-host.ts";

async function openTuning(source: TuningSource): Promise<TuningHost> {
  if (source.numThreads !== undefined) setNumThreads(source.numThreads);
  tuneProducts();
  return inTurn(await TuningHost.create(source));
}

await hostInWorker(openTuning, { carrier: tensorCarrier });

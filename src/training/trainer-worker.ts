/** The thread of a threaded trainer: a TrainerHost that answers its owner, one call at a time. */
import { setNumThreads } from "../torch/memory.ts";
import { hostInThread } from "../workers/host-in-thread.ts";
import { inTurn } from "../workers/in-turn.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import { TrainerHost, type TrainerHostSource } from "./trainer-host.ts";

async function openTrainer(host: TrainerHostSource): Promise<TrainerHost> {
  const { numThreads } = host.source;
  if (numThreads !== undefined) setNumThreads(numThreads);
  return inTurn(await TrainerHost.create(host));
}

await hostInThread(openTrainer, { carrier: tensorCarrier });

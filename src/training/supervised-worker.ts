/** The thread of supervised training: a SupervisedHost that answers its owner, one call at a time. */
import { setNumThreads } from "../torch/memory.ts";
import { hostInThread } from "../workers/host-in-thread.ts";
import { inTurn } from "../workers/in-turn.ts";
import { SupervisedHost, type SupervisedSource } from "./supervised-host.ts";

async function openSupervised(source: SupervisedSource): Promise<SupervisedHost> {
  if (source.numThreads !== undefined) setNumThreads(source.numThreads);
  return inTurn(await SupervisedHost.create(source));
}

await hostInThread(openSupervised);

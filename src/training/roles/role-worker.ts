/** The worker of roles apart from the trainer: a RoleHost that answers its owner, one call at a time. */
import { useExactKernels } from "../../torch/exact.ts";
import { setNumThreads } from "../../torch/memory.ts";
import { tuneProducts } from "../../torch/tuned-products.ts";
import { hostInWorker } from "../../workers/host-in-process.ts";
import { inTurn } from "../../workers/in-turn.ts";
import { RoleHost } from "./role-host.ts";
import type { RoleSource } from "./role-source.ts";

async function openRoles(source: RoleSource): Promise<RoleHost> {
  if (source.numThreads !== undefined) setNumThreads(source.numThreads);
  if (source.isExact) useExactKernels();
  tuneProducts();
  return inTurn(await RoleHost.create(source));
}

await hostInWorker(openRoles);

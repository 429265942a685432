/** The process of an engine: one that answers its owner, and takes its weights from a group that the owner has joined too. */

import type { EngineHost, EngineSource } from "../generation/local/engine-host.ts";
import { engineLine } from "../generation/local/engine-host.ts";
import { openHostedEngine } from "../generation/local/hosted-engine.ts";
import type { Backend, ProcessGroup } from "../torch/distributed/process-group.ts";
import { joinGroup, openStore } from "../torch/distributed/rendezvous.ts";
import { useExactKernels } from "../torch/exact.ts";
import { receiveWeights } from "../weight-sync/broadcast-sync.ts";
import { hostInWorker } from "../workers/host-in-process.ts";

/** Where the owner and its engines meet. */
interface WeightGroup {
  readonly port: number;
  readonly name: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly backend: Backend;
  readonly timeoutMs: number;
}

/** An engine in a process, as its owner calls it. Tensors do not cross: weights come through the group. */
export interface EngineProcess extends Omit<EngineHost, "updateWeights" | "shareWeights"> {
  /** Resolves when all members are there. Leaves the group that it was in. */
  join(group: WeightGroup): Promise<void>;
  /** Takes the version that the owner sends next. */
  receive(): Promise<void>;
}

/** What the process of an engine is started with. */
export interface ProcessSource extends EngineSource {
  /** Whether it computes with exact kernels, which are turned on for a process: see useExactKernels. */
  readonly isExact: boolean;
}

async function openProcess(source: ProcessSource): Promise<EngineProcess> {
  if (source.isExact) useExactKernels();
  const engine = await openHostedEngine(source);
  const { device = "cpu" } = source;
  let group: ProcessGroup | null = null;
  return {
    describe: () => engine.describe(),
    watch: (onStatus) => engine.watch(onStatus),
    generate: engine.generate,
    scorePrompt: engine.scorePrompt,
    pause: () => engine.pause(),
    resume: () => engine.resume(),
    abortAll: () => engine.abortAll(),
    sleep: () => engine.sleep(),
    hold: () => engine.hold(),
    release: () => engine.release(),
    join: async ({ port, ...membership }) => {
      group?.dispose();
      group = null;
      const store = await openStore({ type: "tcp", host: "127.0.0.1", port, isServer: false });
      group = await joinGroup({ store, ...membership, device });
      store.dispose();
    },
    receive: async () => void (await receiveWeights(group!, engine, device)),
    close: async () => {
      group?.dispose();
      await engine.close();
    },
  };
}

// A terminal sends its signals to everybody; what becomes of the run is its owner's to decide.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

await hostInWorker(openProcess, engineLine(setImmediate));

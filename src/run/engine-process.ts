/** The process of an engine: one that answers its owner, and takes its weights from a group that the owner has joined too. */

import { RerollError } from "../errors/reroll-error.ts";
import type { EngineHost, EngineSource } from "../generation/local/engine-host.ts";
import { engineLine } from "../generation/local/engine-host.ts";
import { openHostedEngine } from "../generation/local/hosted-engine.ts";
import type { OtherRanks } from "../generation/local/split/other-ranks.ts";
import type { WeightCuts } from "../models/causal-lm/weight-cuts.ts";
import { useExactKernels } from "../torch/exact.ts";
import { hostInWorker, leaveSignalsToOwner } from "../workers/host-in-process.ts";
import type { EngineRankProcess } from "./engine-rank-process.ts";
import { type WeightGroup, WeightMember } from "./weight-member.ts";

/** An engine in a process, as its owner calls it. Tensors do not cross: weights come through groups, one for each part of the model. */
export interface EngineProcess
  extends Omit<EngineHost, "updateWeights" | "loadWeights" | "shareWeights" | "renewWeights"> {
  /** The part of the model that each rank has. One where it is not split. */
  parts(): Promise<readonly WeightCuts[]>;
  /** Each rank joins the group of its part. Resolves when all members are there. Leaves the groups that they were in. */
  join(groups: readonly WeightGroup[]): Promise<void>;
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
  const engine = await openHostedEngine(source, new URL("engine-rank-process", import.meta.url));
  const member = new WeightMember(source.device);
  const ranks = (engine.others as OtherRanks<EngineRankProcess> | null)?.ranks ?? [];
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
    parts: async () => [engine.cuts, ...(await Promise.all(ranks.map(({ ask }) => ask.part())))],
    join: async ([own, ...others]) => {
      await Promise.all([member.join(own!), ...ranks.map(({ ask }, i) => ask.join(others[i]!))]);
    },
    receive: async () => {
      if (ranks.length === 0) return member.receive(engine);
      // No rank writes weights while another one still computes with them.
      await engine.hold();
      expectAll(await Promise.allSettled([member.receive(engine), ...ranks.map(({ ask }) => ask.receive())]));
      await engine.release();
    },
    close: async () => {
      member.leave();
      await engine.close();
    },
  };
}

/** Where several ranks fail, the one that is lost says more than those that miss it. */
function expectAll(settled: readonly PromiseSettledResult<void>[]): void {
  const reasons = settled.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
  if (reasons.length > 0) throw reasons.find(isBroken) ?? reasons[0];
}

function isBroken(reason: unknown): boolean {
  return reason instanceof RerollError && reason.code === "ENGINE_BROKEN";
}

leaveSignalsToOwner();
await hostInWorker(openProcess, engineLine(setImmediate));

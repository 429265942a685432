/** A small run from a run file, start to end: its metrics without times, what was recorded of its rollouts, and its weights. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { SampleEvent } from "../../src/flow/sample-event.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { type TrajectoryRecord, trajectoryRecords } from "../../src/tracking/trajectory-record.ts";

export interface SmallRun {
  /** What was said before the first step. */
  readonly plan: readonly string[];
  readonly metrics: readonly Metrics[];
  readonly trajectories: readonly TrajectoryRecord[];
  readonly weights: Float32Array;
}

/**
 * With `stopAfter`, the run is stopped after that step and resumed from its folder.
 *
 * @param sampleEvent told of every stage of every sample
 */
export async function trainSmall(
  run: Record<string, unknown>,
  stopAfter = 0,
  sampleEvent: (event: SampleEvent) => void = () => {},
): Promise<SmallRun> {
  const file = { device: "cpu", model: { preset: "nano" }, checkpoint: { every: 0 }, ...run };
  const { config, plan } = await prepareRun(file, [], {});
  const folder = mkdtempSync(join(tmpdir(), "reroll-small-run-"));
  const metrics: Metrics[] = [];
  const trajectories: TrajectoryRecord[] = [];
  try {
    const train = (isResumed: boolean) => {
      const stop = new AbortController();
      return trainRun(config, {
        folder,
        tracker: {
          ...silentTracker,
          sampleEvent,
          log: (step, _kind, values) => {
            metrics.push(withoutTimes(values));
            if (stopAfter > 0 && step === stopAfter && !isResumed) stop.abort();
          },
          recordedGroups: () => Number.POSITIVE_INFINITY,
          recordRollout: (step, _kind, rollout) =>
            void trajectories.push(...trajectoryRecords(step, rollout, Number.POSITIVE_INFINITY)),
        },
        signal: stop.signal,
        clock: () => performance.now(),
        isResumed,
      });
    };
    if (stopAfter > 0) await train(false);
    const { modelFolder } = await train(stopAfter > 0);
    return { plan: plan.lines, metrics, trajectories, weights: readWeights(modelFolder) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function withoutTimes(values: Metrics): Metrics {
  const isTime = (name: string) => /^(time|throughput|engine|memory)\/|^sync\/ms$/.test(name);
  return Object.fromEntries(Object.entries(values).filter(([name]) => !isTime(name)));
}

/** All numbers of the safetensors files of a folder, which are float32 here. */
export function readWeights(folder: string): Float32Array {
  const files = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
  const all = files.flatMap((name) => {
    const bytes = readFileSync(join(folder, name));
    const start = 8 + Number(bytes.readBigUInt64LE(0));
    return [...new Float32Array(Uint8Array.from(bytes.subarray(start)).buffer)];
  });
  return Float32Array.from(all);
}

/** The same text for weights that are the same to the bit. A test that compares the numbers themselves prints all of them when it fails. */
export function digestOf(weights: Float32Array): string {
  return createHash("sha256").update(weights).digest("hex");
}

/** The parts of a loop with a stopwatch on each: how long rollout, training and publishing took, and tokens per second. */
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { LoopParts } from "../loops/loop-parts.ts";
import type { LoopStage, RunRecorder } from "./run-recorder.ts";

export function timedParts(parts: LoopParts, recorder: RunRecorder, clock: Clock): LoopParts {
  const { rollout, trainer, sync, observer } = parts;
  const elapsed = new Map<LoopStage, number>();
  let step = 0;
  const timed = async <Result>(stage: LoopStage, work: () => Promise<Result>): Promise<Result> => {
    const startMs = clock();
    const result = await work();
    const endMs = clock();
    elapsed.set(stage, (elapsed.get(stage) ?? 0) + endMs - startMs);
    recorder.span(stage, startMs, endMs, step);
    return result;
  };
  let stepStartedMs = clock();
  return {
    ...parts,
    rollout: {
      take: (numGroups, signal) => {
        step++;
        return timed("rollout", () => rollout.take(numGroups, signal));
      },
      setVersion: (version) => rollout.setVersion(version),
    },
    trainer: {
      step: (batch) => timed("train", () => trainer.step(batch)),
      stepSupervised: (samples) => trainer.stepSupervised(samples),
      withWeights: (use) => trainer.withWeights(use),
      saveModel: (folder) => trainer.saveModel(folder),
      saveState: (folder) => trainer.saveState(folder),
      loadState: (folder) => trainer.loadState(folder),
      close: () => trainer.close(),
    },
    sync: { publish: (version) => timed("sync", () => sync.publish(version)) },
    observer: {
      onStart: async (position) => {
        step = position.step;
        const decision = await observer.onStart?.(position);
        stepStartedMs = clock();
        return decision ?? "continue";
      },
      onRollout: async (at, sampled) => observer.onRollout?.(at, sampled),
      onStep: async (position, metrics) => {
        const now = clock();
        const decision = await observer.onStep(position, {
          ...metrics,
          ...timings(elapsed, now - stepStartedMs, metrics),
        });
        elapsed.clear();
        stepStartedMs = clock();
        return decision;
      },
    },
  };
}

function timings(elapsed: ReadonlyMap<LoopStage, number>, stepMs: number, metrics: Metrics): Metrics {
  const seconds = (stage: LoopStage) => (elapsed.get(stage) ?? 0) / 1000;
  const perSecond = (count: number | undefined, time: number) => (count === undefined || time === 0 ? 0 : count / time);
  return {
    "time/step_s": stepMs / 1000,
    "time/rollout_s": seconds("rollout"),
    "time/train_s": seconds("train"),
    "time/sync_s": seconds("sync"),
    "throughput/sampled_tokens_per_s": perSecond(metrics["experience/loss_tokens"], seconds("rollout")),
    "throughput/trained_tokens_per_s": perSecond(metrics["experience/tokens"], seconds("train")),
    "throughput/tokens_per_s": perSecond(metrics["experience/tokens"], stepMs / 1000),
  };
}

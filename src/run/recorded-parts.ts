/**
 * Wraps the parts of a loop so that the tracker hears what they do: when rollout, training and publishing began and
 * ended, and each rollout with what training saw of it.
 *
 * A rollout is held from its delivery until it has been trained on, and recorded also where that fails.
 */
import { splitPlayers } from "../flow/split-players.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { LoopParts } from "../loops/loop-parts.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import type { RunTracker } from "../tracking/run-tracker.ts";
import type { StepReport } from "../training/token-trainer.ts";

export function recordedParts(parts: LoopParts, tracker: RunTracker): LoopParts {
  const { rollout, trainer, sync, observer } = parts;
  let held: { readonly step: number; readonly rollout: Rollout } | null = null;
  const train = async (batch: SampleBatch): Promise<StepReport> => {
    const numbersOf =
      held === null ? [] : freshSamples(batch, numRecorded(held.rollout, tracker.recordedGroups(held.step)));
    let report: StepReport | null = null;
    try {
      report = await trainer.step(batch, { numbersOf });
      return report;
    } finally {
      const trained = report?.numbers && { samples: batch.samples, numbers: report.numbers };
      if (held !== null) tracker.recordRollout(held.step, "train", { ...held.rollout, ...(trained && { trained }) });
      held = null;
    }
  };
  return {
    ...parts,
    rollout: {
      take: (numGroups, signal) => tracker.span("rollout", () => rollout.take(numGroups, signal)),
      setProgress: (step, version) => rollout.setProgress(step, version),
    },
    trainer: { step: (batch) => tracker.span("train", () => train(batch)) },
    sync: { publish: (version) => tracker.span("sync", () => sync.publish(version)) },
    observer: {
      onStart: async (position) => (await observer.onStart?.(position)) ?? "continue",
      onRollout: async (step, delivered) => {
        held = { step, rollout: delivered };
        await observer.onRollout?.(step, delivered);
      },
      onStep: (position, metrics) => observer.onStep(position, metrics),
    },
  };
}

/** Groups of the batch that are made of this many groups of episodes. */
function numRecorded({ groups }: Rollout, numGroups: number): number {
  return splitPlayers(groups.slice(0, numGroups)).length;
}

/** The rows of the first groups, by their index in the batch. Rows with a weight are replays of earlier steps. */
function freshSamples({ samples }: SampleBatch, numGroups: number): readonly number[] {
  return samples.flatMap(({ group, weight }, row) => (weight === undefined && group < numGroups ? [row] : []));
}

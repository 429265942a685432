/** The parts of a loop, with what they do told to the recorder: when rollout, training and publishing began and ended. */
import type { LoopParts } from "../loops/loop-parts.ts";
import type { RunRecorder } from "./run-recorder.ts";

export function recordedParts(parts: LoopParts, recorder: RunRecorder): LoopParts {
  const { rollout, trainer, sync } = parts;
  return {
    ...parts,
    rollout: {
      take: (numGroups, signal) => recorder.span("rollout", () => rollout.take(numGroups, signal)),
      setVersion: (version) => rollout.setVersion(version),
    },
    trainer: { step: (batch) => recorder.span("train", () => trainer.step(batch)) },
    sync: { publish: (version) => recorder.span("sync", () => sync.publish(version)) },
  };
}

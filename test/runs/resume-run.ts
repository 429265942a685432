/** The smallest run that has everything a resume must bring back: a warm start, turns, replay, validation, checkpoints. */
import { defineRun } from "../../src/run/define-run.ts";

export const run = defineRun({
  name: "resume",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", size: 3, maxTurns: 4 } },
  rollout: {
    ...{ groupsPerStep: 4, groupSize: 4, context: "turn", contextLength: 48, sampling: { maxTokens: 4 } },
  },
  training: { optimizer: { lr: 1e-3 }, schedule: { type: "linear" }, minibatch: 8 },
  loop: { type: "sync", steps: 8 },
  warmStart: { type: "play", steps: 2, turnsPerStep: 16 },
  validation: { every: 2, prompts: 8 },
  checkpoint: { every: 1 },
  tracking: { tensorboard: false },
});
export default run;

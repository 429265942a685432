/** The smallest run that has all the state there is: a warm start, turns, controllers, replay, validation, checkpoints. */
import { defineRun } from "../../src/run/define-run.ts";

export const run = defineRun({
  name: "resume",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", size: 3, maxTurns: 4 } },
  rollout: { groupsPerStep: 4, groupSize: 4, context: "turn", contextLength: 48, sampling: { maxTokens: 4 } },
  algorithm: {
    type: "grpo",
    // The sampler's own log-probs are trained against, so that a bit of difference in the engine would show.
    bypass: {},
    klReward: { coefficient: 0.01, adaptive: { targetKl: 0.1, horizon: 100 } },
    entropy: { type: "adaptive", target: 1.5 },
  },
  // Moments in codes, whose scales are part of the state too.
  training: { optimizer: { lr: 1e-3, moments: "8-bit" }, schedule: { type: "linear" }, minibatch: 8 },
  replay: { capacity: 64, ratio: 0.25, maxAge: 4, priority: { advantage: 1, rarity: 0.5 } },
  loop: { type: "sync", steps: 6 },
  warmStart: { type: "play", steps: 2, turnsPerStep: 16 },
  validation: { every: 2, prompts: 8 },
  checkpoint: { every: 1 },
  tracking: { tensorboard: false },
});

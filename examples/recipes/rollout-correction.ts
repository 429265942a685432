/**
 * The four configurations of rollout correction, on one asynchronous run that is up to four training steps stale.
 *
 * Trains     a model of 0.1M parameters on FrozenLake, from nothing
 * Hardware   two CPU cores, no GPU
 * Time       a few minutes each
 * Command    reroll train examples/recipes/rollout-correction.ts, with `configuration` set to the one to try
 *
 * What each does, and when to use which: docs/guides/off-policy.md.
 */
import { defineRun } from "reroll";

const configurations = {
  /** A weight per token, clipped to [1/2, 2]. Low variance; the default choice. */
  tokenWeights: { correction: { importance: { level: "token", threshold: 2 } } },
  /** A weight per sequence, clipped to [1/4, 4]. Less bias, more variance. */
  sequenceWeights: { correction: { importance: { level: "sequence", threshold: 4 } } },
  /** Weights per token, and rows with a token outside [1/4, 4] left out whole. */
  rejection: {
    correction: {
      importance: { level: "token", threshold: 2 },
      rejections: { token_k1: "0.25_4" },
      scope: "sequence",
    },
  },
  /** The sampler is the anchor: one forward pass less, and the clipped ratio is all the correction. For fresh tokens. */
  bypass: { bypass: {}, correction: { importance: { level: "token", threshold: 2 } } },
} as const;

const configuration: keyof typeof configurations = "tokenWeights";

export const run = defineRun({
  name: "rollout-correction",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 8 } },
  rollout: {
    groupsPerStep: 32,
    groupSize: 16,
    maxInFlight: 512,
    context: "turn",
    contextLength: 64,
    sampling: { maxTokens: 4 },
  },
  algorithm: {
    type: "gigpo",
    gamma: 0.8,
    episodeWeight: 0,
    reduction: { type: "token-mean" },
    ...configurations[configuration],
  },
  training: { optimizer: { lr: 1e-3 }, maxTokensPerMicrobatch: 32_768 },
  loop: { type: "async", steps: 120, syncInterval: 4, maxStaleness: 4 },
  warmStart: { type: "play", steps: 20 },
  validation: { every: 20, prompts: 256, metric: "env/success", temperature: 1 },
});

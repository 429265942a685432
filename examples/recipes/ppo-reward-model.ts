/**
 * PPO with actor, critic, reference and reward model.
 *
 * Trains     a chat model that was taught by examples, against a reward model that was taught by comparisons
 * Hardware   one GPU with 24 GB for models of 0.5B parameters
 * Data       data/prompts.jsonl with rows { "prompt": ..., "answer": "" }
 * Expected   on a synthetic preference whose truth is known: npm run bench -- rlhf, docs/guides/ppo.md
 * Command    reroll train examples/recipes/ppo-reward-model.ts --set model.path=models/supervised
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "ppo-reward-model",
  model: { path: "models/supervised" },
  data: { type: "jsonl", path: "data/prompts.jsonl", domain: "chat" },
  rewards: { chat: { type: "reward-model", path: "models/reward-model" } },
  rollout: { groupsPerStep: 128, groupSize: 1, maxInFlight: 128, contextLength: 1024, sampling: { maxTokens: 512 } },
  algorithm: {
    type: "ppo",
    klReward: { coefficient: 0.05, adaptive: { targetKl: 0.05 } },
    // Reward models have a scale of their own, and replies that never end are no replies.
    rewardNormalization: {},
    truncatedPenalty: 1,
    rewardClip: 5,
  },
  // The reward model's head is where the values start; then the critic learns alone for a while.
  critic: { path: "models/reward-model", warmupUpdates: 20, optimizer: { lr: 5e-6 } },
  training: { optimizer: { lr: 1e-6 }, minibatch: 64 },
  loop: { type: "sync", steps: 200 },
  checkpoint: { every: 50 },
});

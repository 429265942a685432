/** PPO with a critic and a reference, on prompts of one's own. */
import { isPreset, modelOf, type Scaffold, trainingOf } from "../scaffold.ts";
import { reward } from "./reward.ts";

export const ppo: Scaffold = {
  label: "PPO with a critic and a reference, on prompts of my own",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";
import { ticketReward } from "./reward.ts";

/**
 * Prompts are prompts.jsonl, the score is reward.ts; with a reward model it is { type: "reward-model", path: "..." } instead.
 * Every key that is not here has a default: npx reroll train run.ts --explain shows them all.
 */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  data: { type: "jsonl", path: "prompts.jsonl" },
  rewards: { default: { type: "custom", ...ticketReward } },
  rollout: { groupsPerStep: 128, groupSize: 1, contextLength: 256, sampling: { maxTokens: 12 } },
  algorithm: { type: "ppo", klReward: { coefficient: 0.01 } }, // every token pays for leaving the reference
  critic: { optimizer: { lr: ${isPreset(choices.model) ? "1e-3" : "1e-5"} } },
  training: ${trainingOf(choices)},
  loop: { type: "sync", steps: 60 },
});
`,
  files: reward.files,
  about: reward.about,
  measured: "the share of digits rises from 3 % to 91 % in 60 steps, about a minute",
};

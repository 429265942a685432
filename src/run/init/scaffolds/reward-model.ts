/** Pairs of replies, from which a model learns to score. */
import { isPreset, modelOf, type Scaffold } from "../scaffold.ts";
import { preference } from "./preference.ts";

export const rewardModel: Scaffold = {
  label: "Pairs of replies, a better and a worse one, to learn a reward model from",
  // It scores and does not write: there is nobody to talk to.
  isLanguageModel: false,
  runFile: (choices) => `import { defineTuning } from "reroll";

/**
 * The pairs are pairs.jsonl. In a run that samples, the reward model is then
 * rewards: { default: { type: "reward-model", path: "..." } }, with the folder that npx reroll export runs/${choices.name} --out writes.
 * Every key that is not here has a default: npx reroll train run.ts --explain shows them all.
 */
export default defineTuning({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  objective: { type: "reward-model" },
  data: { type: "jsonl", path: "pairs.jsonl" },
  loop: { epochs: ${isPreset(choices.model) ? 40 : 1}, rowsPerStep: 4 },
  training: { optimizer: { lr: ${isPreset(choices.model) ? "3e-4" : "1e-5"} } },
});
`,
  files: preference.files,
  about: preference.about,
  measured: "the better reply of every pair scores higher within 11 steps, a few seconds",
};

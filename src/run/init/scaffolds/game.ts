/** A built-in game, to see a model learn on this machine. */
import { modelOf, presetLine, type Scaffold, trainingOf } from "../scaffold.ts";

export const game: Scaffold = {
  label: "Play a built-in game, to see a model learn on this machine",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";

/** A model walks over a frozen lake. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", maxTurns: 8 } },
  rollout: { groupsPerStep: 32, groupSize: 8, context: "turn", contextLength: 128, sampling: { maxTokens: 8 } },
  algorithm: { type: "gigpo" }, // compares moves that were made from the same place
  training: ${trainingOf(choices)},
${presetLine(choices, 'warmStart: { type: "play", agent: "random", steps: 40 }, // from noise to legal moves')}  loop: { type: "sync", steps: 100 },
  validation: { every: 20, prompts: 64 },
});
`,
  files: {},
  about: "",
  measured: "the share of lakes crossed in validation rises from 17 % to 92 % in 100 steps",
};

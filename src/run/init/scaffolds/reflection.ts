/** Reflection: failed tries are tried again with what the model thought of them, and successes are learned without it. */
import { isPreset, modelOf, presetLine, type Scaffold, trainingOf } from "../scaffold.ts";
import { distillation, lessonLine } from "./distillation.ts";

export const reflection: Scaffold = {
  label: "Reflection: failed tries are thought over and tried again, and what succeeds is learned",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";
import { codes${isPreset(choices.model) ? ", lessons" : ""} } from "./codes.ts";

/** The task is codes.ts. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  envs: { codes: { type: "custom", ...codes() } },
  rollout: { groupsPerStep: 16, groupSize: 4, contextLength: 128, sampling: { maxTokens: ${isPreset(choices.model) ? 1 : 8} } },
  // After a failed try: what the model is asked, and what it reads of its own answer when it tries again.
  reflection: { prompt: "answer {truth}", context: "hint {reflection}", maxTokens: ${isPreset(choices.model) ? 1 : 64} },
  training: ${trainingOf(choices)},
${presetLine(choices, lessonLine())}  loop: { type: "sync", steps: 20 },
});
`,
  files: distillation.files,
  about: distillation.about,
  measured: "the share of first tries that succeed rises from 0 to 89 % in 20 steps, well within a minute",
};

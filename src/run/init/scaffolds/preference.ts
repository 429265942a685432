/** Pairs of replies, of which the model learns to prefer the better one. */
import { isPreset, modelOf, type Scaffold } from "../scaffold.ts";

const pairs = [
  ["My parcel is late. What now?", "Sorry about that. I will look for it.", "Wait."],
  ["I was charged twice this month.", "Sorry about that. You get it back.", "So what."],
  ["How do I change my address?", "Happy to help: open Account, then Addresses.", "Read the manual."],
  ["Can I pay by invoice?", "Happy to help: yes, from 50 euros on.", "Look it up."],
];

export const preference: Scaffold = {
  label: "Pairs of replies, a better and a worse one, to learn from by DPO",
  isLanguageModel: true,
  runFile: (choices) => `import { defineTuning } from "reroll";

/** The pairs are pairs.jsonl. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineTuning({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  objective: { type: "dpo" },
  data: { type: "jsonl", path: "pairs.jsonl" },
  loop: { epochs: ${isPreset(choices.model) ? 40 : 1}, rowsPerStep: 4 },
  training: { optimizer: { lr: ${isPreset(choices.model) ? "3e-4" : "1e-6"} } },
});
`,
  files: {
    "pairs.jsonl": pairs
      .map(([prompt, chosen, rejected]) => `${JSON.stringify({ prompt, chosen, rejected })}\n`)
      .join(""),
  },
  about: "- `pairs.jsonl`: prompts with a better and a worse reply, one per line.\n",
  measured:
    "the better reply of every pair becomes the likelier one, compared with the start, within 40 steps and a few seconds",
};

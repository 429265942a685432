/** Prompts of one's own, and a function that scores the replies. */
import { modelOf, type Scaffold, trainingOf } from "../scaffold.ts";

const prompts = [
  "My parcel is late. What now?",
  "I was charged twice this month.",
  "The app closes when I open a photo.",
  "How do I change my address?",
  "Your driver left the box in the rain.",
  "I want to cancel my order.",
  "Can I pay by invoice?",
  "The size does not fit. Can I return it?",
];

export const reward: Scaffold = {
  label: "Prompts of my own, and a function that scores the replies",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";
import { ticketReward } from "./reward.ts";

/** Prompts are prompts.jsonl, the score is reward.ts. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  data: { type: "jsonl", path: "prompts.jsonl" },
  rewards: { default: { type: "custom", ...ticketReward } },
  rollout: { groupsPerStep: 8, groupSize: 16, contextLength: 256, sampling: { maxTokens: 12 } },
  algorithm: { type: "grpo" },
  training: ${trainingOf(choices)},
  loop: { type: "sync", steps: 60 },
});
`,
  files: {
    "reward.ts": `/**
 * What a good reply is: a ticket number, so digits alone. A model from nothing, which writes bytes at random, can learn that within a
 * minute. Throw where you cannot tell: the trajectory is then left out, not scored 0.
 */
export const ticketReward = {
  name: "ticket",
  score: ({ reply }: { readonly reply: string }) => {
    const digits = reply.replace(/[^0-9]/g, "").length;
    return { value: reply === "" ? 0 : digits / reply.length, parts: { digits } };
  },
};
`,
    "prompts.jsonl": prompts.map((prompt) => `${JSON.stringify({ prompt })}\n`).join(""),
  },
  about: "- `prompts.jsonl`: the prompts, one per line.\n- `reward.ts`: the score of a reply.\n",
  measured: "the share of digits rises from 2 % to 98 % in 60 steps",
};

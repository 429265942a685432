/** Conversations of one's own, whose replies the model learns. */
import { isPreset, modelOf, type Scaffold } from "../scaffold.ts";

const chats = [
  ["My parcel is late. What now?", "Sorry about the wait. Send me the order number, and I will find it."],
  ["I was charged twice this month.", "That should not happen. I have asked for the second charge back."],
  ["How do I change my address?", "Open Account, then Addresses, and choose Edit."],
  ["Can I pay by invoice?", "Yes, for orders above 50 euros."],
];

export const supervised: Scaffold = {
  label: "Conversations of my own, whose replies the model learns",
  isLanguageModel: true,
  runFile: (choices) => `import { defineTuning } from "reroll";

/** The conversations are chats.jsonl. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineTuning({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  objective: { type: "supervised" }, // only the replies of the assistant count
  data: { type: "jsonl", path: "chats.jsonl" },
  loop: { epochs: ${isPreset(choices.model) ? 60 : 3}, rowsPerStep: 4 },
  training: { optimizer: { lr: ${isPreset(choices.model) ? "1e-3" : "1e-5"} }, schedule: { type: "cosine", warmup: 2 } },
});
`,
  files: {
    "chats.jsonl": chats
      .map(([asked, reply]) => [
        { role: "user", content: asked },
        { role: "assistant", content: reply },
      ])
      .map((messages) => `${JSON.stringify({ messages })}\n`)
      .join(""),
  },
  about: "- `chats.jsonl`: the conversations, one per line.\n",
  measured: "the loss falls from 6.4 to 0.4 in 60 steps, a few seconds",
};

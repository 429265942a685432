/** A run file whose agent never comes back from one of its prompts, and holds up the whole process. */
import { defineRun } from "../../src/index.ts";

export const run = defineRun({
  name: "blocked",
  device: "cpu",
  model: { preset: "nano" },
  data: { type: "rows", rows: ["calm", "endless"].map((kind) => ({ id: kind, prompt: kind, answer: kind })) },
  agent: async ({ messages }, { baseURL, seed, signal }) => {
    await fetch(`${baseURL}/chat/completions`, {
      ...{ method: "POST", signal, headers: { "content-type": "application/json" } },
      body: JSON.stringify({ model: "agent", max_tokens: 2, seed, messages }),
    });
    if (messages[0]!.content === "endless") loopForever();
    return seed % 2;
  },
  rollout: {
    ...{ groupsPerStep: 2, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    limits: { episodeSeconds: Number(process.env.BLOCKED_SECONDS) },
  },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 1 },
  engine: { threads: 1 },
  tracking: { folder: process.env.BLOCKED_FOLDER!, tensorboard: false },
});

function loopForever(): void {
  for (;;);
}

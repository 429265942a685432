/**
 * Train an agent of your own, unchanged: it talks to an OpenAI-compatible endpoint, and the model behind it gets better.
 *
 * Trains     an agent written with the Vercel AI SDK that asks for a word and asks again; shorter replies earn more
 * Hardware   two CPU cores with the small preset; a GPU with a real model
 * Expect     reward rises as replies get shorter
 * Command    reroll train examples/recipes/own-agent.ts
 *
 * Every call of an episode is recorded with its tokens and log-probabilities. The agent returns its reward; it could post it to
 * `rewardURL` instead, or leave it to a reward of the run file.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, type ModelMessage } from "ai";
import { type AgentCall, defineRun, type Prompt } from "reroll";

async function askTwice(prompt: Prompt, { baseURL, apiKey, seed, signal }: AgentCall): Promise<number> {
  const model = createOpenAICompatible({ name: "reroll", baseURL, apiKey })("own-agent");
  const messages: ModelMessage[] = [{ role: "user", content: String(prompt.messages[0]?.content) }];
  let numCharacters = 0;
  for (const [turn, followUp] of ["Shorter, please.", null].entries()) {
    const settings = { maxOutputTokens: 24, seed: seed + turn, maxRetries: 0, abortSignal: signal };
    const { text, response } = await generateText({ model, messages, ...settings });
    numCharacters += text.length;
    messages.push(...response.messages);
    if (followUp !== null) messages.push({ role: "user", content: followUp });
  }
  return Math.max(0, 1 - numCharacters / 48);
}

export const run = defineRun({
  name: "own-agent",
  model: { preset: "nano" },
  agent: askTwice,
  data: {
    type: "rows",
    rows: ["a color", "an animal", "a city", "a fruit"].map((what) => ({ prompt: `Name ${what}.`, answer: "" })),
  },
  rollout: { groupsPerStep: 4, groupSize: 8, maxInFlight: 32, contextLength: 512, sampling: { maxTokens: 24 } },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 30 },
});

/**
 * Train an agent that is written with the Vercel AI SDK, with `@ai-sdk/openai` as it comes: it talks to /v1/responses.
 * `createOpenAICompatible` of `@ai-sdk/openai-compatible` works the same, over /v1/chat/completions.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    reroll train examples/agents/ai-sdk.ts
 */
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { z } from "zod";
import { instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "./weather.ts";

const weather = tool({
  description: toolDescription,
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => weatherOf(city),
});

export async function agent(prompt: Prompt, { baseURL, apiKey, model, signal }: AgentCall): Promise<number> {
  const { text } = await generateText({
    model: createOpenAI({ baseURL, apiKey })(model),
    system: instructions,
    prompt: questionOf(prompt),
    tools: { weather },
    stopWhen: stepCountIs(4),
    abortSignal: signal,
  });
  return rewardFor(prompt, text);
}

export const run = defineRun({ name: "agent-ai-sdk", agent, ...shared });

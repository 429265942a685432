/**
 * Train an agent that is written with the Vercel AI SDK, with `@ai-sdk/openai` as it comes: it talks to /v1/responses.
 * `createOpenAICompatible` of `@ai-sdk/openai-compatible` works the same, over /v1/chat/completions.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    reroll train examples/agents/ai-sdk.ts
 */
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { z } from "zod";
import { citySchema, instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "./weather.ts";

const weather = tool({
  description: toolDescription,
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => weatherOf(city),
});

function settings(prompt: Prompt, { baseURL, apiKey, model, signal }: AgentCall) {
  return {
    model: createOpenAI({ baseURL, apiKey })(model),
    system: instructions,
    prompt: questionOf(prompt),
    tools: { weather },
    stopWhen: stepCountIs(4),
    abortSignal: signal,
  };
}

export async function agent(prompt: Prompt, call: AgentCall): Promise<number> {
  const { text } = await generateText(settings(prompt, call));
  return rewardFor(prompt, text);
}

/** The same, streamed. */
export async function streamingAgent(prompt: Prompt, call: AgentCall): Promise<number> {
  return rewardFor(prompt, await streamText(settings(prompt, call)).text);
}

/** Answers with JSON of a schema, without the tool. */
export async function structuredAgent(prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> {
  const { output } = await generateText({
    model: createOpenAI({ baseURL, apiKey })(model),
    prompt: questionOf(prompt),
    output: Output.object({ schema: jsonSchema<{ city: string }>(citySchema) }),
  });
  return rewardFor(prompt, output.city);
}

export const run = defineRun({ name: "agent-ai-sdk", agent, ...shared });

/**
 * Train an agent that is written with OpenAI Agents, as it comes: it talks to /v1/responses.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    npm run agents, then reroll train examples/agents/frameworks/openai-agents.ts
 */
import { Agent, ModelBehaviorError, OpenAIProvider, Runner, tool } from "@openai/agents";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { z } from "zod";
import { cities, instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "../weather.ts";

const weather = tool({
  name: "weather",
  description: toolDescription,
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => weatherOf(city),
});

export async function agent(prompt: Prompt, { baseURL, apiKey, model, signal }: AgentCall): Promise<number> {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }), tracingDisabled: true });
  const helper = new Agent({ name: "weather", instructions, model, tools: [weather] });
  try {
    const result = await runner.run(helper, questionOf(prompt), { maxTurns: 4, signal });
    return rewardFor(prompt, result.finalOutput ?? "");
  } catch (cause) {
    // A reply that its limit of tokens cut is an error here: it earns nothing, and the episode counts.
    if (cause instanceof ModelBehaviorError) return 0;
    throw cause;
  }
}

/** The same, streamed. */
export async function streamingAgent(prompt: Prompt, { baseURL, apiKey, model, signal }: AgentCall): Promise<number> {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }), tracingDisabled: true });
  const helper = new Agent({ name: "weather", instructions, model, tools: [weather] });
  const result = await runner.run(helper, questionOf(prompt), { maxTurns: 4, signal, stream: true });
  let answer = "";
  for await (const piece of result.toTextStream()) answer += piece;
  await result.completed;
  return rewardFor(prompt, answer);
}

/** Answers with JSON of a schema, without the tool. */
export async function structuredAgent(prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }), tracingDisabled: true });
  const helper = new Agent({ name: "weather", model, outputType: z.object({ city: z.enum(cities) }) });
  const { finalOutput } = await runner.run(helper, questionOf(prompt));
  return rewardFor(prompt, finalOutput?.city ?? "");
}

export const run = defineRun({ name: "agent-openai-agents", agent, ...shared });

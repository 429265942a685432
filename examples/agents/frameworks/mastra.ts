/**
 * Train an agent that is written with Mastra.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    npm run agents, then reroll train examples/agents/frameworks/mastra.ts
 */
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { z } from "zod";
import { cities, instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "../weather.ts";

const weather = createTool({
  id: "weather",
  description: toolDescription,
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => weatherOf(city),
});

function weatherAgent({ baseURL, apiKey, model }: AgentCall): Agent {
  const endpoint = { providerId: "reroll", modelId: model, url: baseURL, apiKey };
  return new Agent({
    id: "weather",
    name: "weather",
    instructions,
    model: endpoint,
    tools: { weather },
    maxRetries: 2,
  });
}

export async function agent(prompt: Prompt, call: AgentCall): Promise<number> {
  const { text } = await weatherAgent(call).generate(questionOf(prompt), { maxSteps: 4, abortSignal: call.signal });
  return rewardFor(prompt, text);
}

/** The same, streamed. */
export async function streamingAgent(prompt: Prompt, call: AgentCall): Promise<number> {
  const output = await weatherAgent(call).stream(questionOf(prompt), { maxSteps: 4, abortSignal: call.signal });
  let answer = "";
  for await (const piece of output.textStream) answer += piece;
  return rewardFor(prompt, answer);
}

/** Answers with JSON of a schema, without the tool. */
export async function structuredAgent(prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> {
  const endpoint = { providerId: "reroll", modelId: model, url: baseURL, apiKey };
  const helper = new Agent({ id: "weather", name: "weather", instructions: "", model: endpoint });
  const structuredOutput = { schema: z.object({ city: z.enum(cities) }) };
  const { object } = await helper.generate(questionOf(prompt), { structuredOutput });
  return rewardFor(prompt, object.city);
}

export const run = defineRun({ name: "agent-mastra", agent, ...shared });

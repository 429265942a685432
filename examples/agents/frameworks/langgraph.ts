/**
 * Train an agent that is a graph of LangGraph, with `ChatOpenAI` as its model.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    npm run agents, then reroll train examples/agents/frameworks/langgraph.ts
 */
import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { z } from "zod";
import { cities, instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "../weather.ts";

const weather = tool(async ({ city }: { city: string }) => weatherOf(city), {
  name: "weather",
  description: toolDescription,
  schema: z.object({ city: z.string() }),
});

function weatherGraph({ baseURL, apiKey, model }: AgentCall) {
  const llm = new ChatOpenAI({ model, apiKey, configuration: { baseURL } });
  return createReactAgent({ llm, tools: [weather], prompt: instructions });
}

export async function agent(prompt: Prompt, call: AgentCall): Promise<number> {
  const messages = [{ role: "user" as const, content: questionOf(prompt) }];
  const settings = { recursionLimit: 9, signal: call.signal };
  const result = await weatherGraph(call).invoke({ messages }, settings);
  return rewardFor(prompt, result.messages.at(-1)?.text ?? "");
}

/** The same, streamed. */
export async function streamingAgent(prompt: Prompt, call: AgentCall): Promise<number> {
  const messages = [{ role: "user" as const, content: questionOf(prompt) }];
  const settings = { recursionLimit: 9, signal: call.signal, streamMode: "messages" as const };
  let answer = "";
  for await (const [piece, { langgraph_node: node }] of await weatherGraph(call).stream({ messages }, settings)) {
    if (node === "agent") answer += piece.text;
  }
  return rewardFor(prompt, answer);
}

/** Answers with JSON of a schema, without the tool. */
export async function structuredAgent(prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> {
  const llm = new ChatOpenAI({ model, apiKey, configuration: { baseURL } });
  const answer = z.object({ city: z.enum(cities) });
  const found = await llm.withStructuredOutput(answer, { method: "jsonSchema" }).invoke(questionOf(prompt));
  return rewardFor(prompt, found.city);
}

export const run = defineRun({ name: "agent-langgraph", agent, ...shared });

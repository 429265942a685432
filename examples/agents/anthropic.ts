/**
 * Train an agent that is written with `@anthropic-ai/sdk`: its own loop around messages, with a tool.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    reroll train examples/agents/anthropic.ts
 */
import Anthropic from "@anthropic-ai/sdk";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { citySchema, instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "./weather.ts";

const tools: Anthropic.Tool[] = [
  {
    name: "weather",
    description: toolDescription,
    input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
];

type Ask = (client: Anthropic, body: Anthropic.MessageCreateParamsNonStreaming) => Promise<Anthropic.Message>;

export const agent = agentThat((client, body) => client.messages.create(body));

/** The same, streamed. */
export const streamingAgent = agentThat((client, body) => client.messages.stream(body).finalMessage());

function agentThat(ask: Ask) {
  return async (prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> => {
    const client = clientFor(baseURL, apiKey);
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: questionOf(prompt) }];
    for (let turn = 0; turn < 4; turn++) {
      const { content } = await ask(client, { model, max_tokens: 256, system: instructions, messages, tools });
      const calls = content.filter((block) => block.type === "tool_use");
      if (calls.length === 0) return rewardFor(prompt, textOf(content));
      const results = calls.map(({ id, input }) => ({
        ...{ type: "tool_result" as const, tool_use_id: id },
        content: weatherOf(String((input as { city?: unknown }).city)),
      }));
      messages.push({ role: "assistant", content }, { role: "user", content: results });
    }
    return 0;
  };
}

/** Answers with JSON of a schema, without the tool. */
export async function structuredAgent(prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> {
  const { content } = await clientFor(baseURL, apiKey).messages.create({
    ...{ model, max_tokens: 256, messages: [{ role: "user", content: questionOf(prompt) }] },
    output_config: { format: { type: "json_schema", schema: citySchema } },
  });
  return rewardFor(prompt, String(JSON.parse(textOf(content)).city));
}

/** Anthropic's client adds /v1 to the address by itself. */
function clientFor(baseURL: string, apiKey: string): Anthropic {
  return new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey });
}

function textOf(content: readonly Anthropic.ContentBlock[]): string {
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

export const run = defineRun({ name: "agent-anthropic", agent, ...shared });

/**
 * Train an agent that is written with the `openai` package: its own loop around chat completions, with a tool.
 *
 * Trains     a weather agent: the right answer earns 1, and every character costs a little
 * Hardware   two CPU cores with the small preset, which learns to be brief; a GPU with a model that can call tools
 * Command    reroll train examples/agents/openai.ts
 */
import OpenAI from "openai";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { citySchema, instructions, questionOf, rewardFor, shared, toolDescription, weatherOf } from "./weather.ts";

const tools: OpenAI.Chat.ChatCompletionTool[] = [
  {
    type: "function",
    function: {
      name: "weather",
      description: toolDescription,
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

type Ask = (
  client: OpenAI,
  body: OpenAI.Chat.ChatCompletionCreateParamsNonStreaming,
  options: { readonly signal: AbortSignal },
) => Promise<OpenAI.Chat.ChatCompletion>;

export const agent = agentThat((client, body, options) => client.chat.completions.create(body, options));

/** The same, streamed. */
export const streamingAgent = agentThat((client, { stream: _, ...body }, options) =>
  client.chat.completions.stream(body, options).finalChatCompletion(),
);

function agentThat(ask: Ask) {
  return async (prompt: Prompt, { baseURL, apiKey, model, signal }: AgentCall): Promise<number> => {
    const client = new OpenAI({ baseURL, apiKey });
    const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [
      { role: "system", content: instructions },
      { role: "user", content: questionOf(prompt) },
    ];
    for (let turn = 0; turn < 4; turn++) {
      const { choices } = await ask(client, { model, messages, tools }, { signal });
      const { message } = choices[0]!;
      messages.push(message);
      if (message.tool_calls === undefined) return rewardFor(prompt, message.content ?? "");
      for (const call of message.tool_calls) {
        const city = call.type === "function" ? readCity(call.function.arguments) : "";
        messages.push({ role: "tool", tool_call_id: call.id, content: weatherOf(city) });
      }
    }
    return 0;
  };
}

/** Answers with JSON of a schema, without the tool. */
export async function structuredAgent(prompt: Prompt, { baseURL, apiKey, model }: AgentCall): Promise<number> {
  const json_schema = { name: "answer", schema: citySchema, strict: true };
  const { choices } = await new OpenAI({ baseURL, apiKey }).chat.completions.create({
    ...{ model, messages: [{ role: "user", content: questionOf(prompt) }] },
    response_format: { type: "json_schema", json_schema },
  });
  return rewardFor(prompt, String(JSON.parse(choices[0]!.message.content ?? "").city));
}

/** A model that learns writes arguments that are no JSON now and then: the tool says so, and the episode goes on. */
function readCity(written: string): string {
  try {
    return String(JSON.parse(written).city);
  } catch {
    return written;
  }
}

export const run = defineRun({ name: "agent-openai", agent, ...shared });

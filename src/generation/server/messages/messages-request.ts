/** Requests to /v1/messages, Anthropic's API, in the form that all chat calls have. */
import { z } from "zod";
import type { ChatMessage, ChatTool, ChatToolCall } from "../../../flow/chat-message.ts";
import type { ChatCall } from "../chat-call.ts";
import { type CallRules, constraintOf, flatFormat, flatFormatOf } from "../constraint-request.ts";
import { joinTextParts, textPart } from "../content-parts.ts";
import { requestError } from "../openai-errors.ts";
import { count, flag, messageList, readFields, text, toolList, unknownFields } from "../request-fields.ts";
import { refuseFields, samplingFields } from "../sampling-request.ts";

export function parseMessagesRequest(body: unknown): ChatCall {
  const fields = readFields(messagesSchema, body);
  return { ...parseConversation(fields), maxTokens: fields.max_tokens };
}

/** A request that only asks how many tokens its conversation has. */
export function parseCountRequest(body: unknown): ChatCall {
  return parseConversation(readFields(conversationSchema, body));
}

function parseConversation(fields: z.output<typeof conversationSchema>): ChatCall {
  refuseFields(fields, refusedInMessages);
  const { system, tools: given = [], stop_sequences: stop } = fields;
  const tools = given.map((tool, index) => chatTool(tool, `tools[${index}]`));
  if (fields.messages.at(-1)?.role === "assistant") {
    throw requestError(
      "messages",
      "messages must not end with an assistant message: this server does not go on with a reply that has been begun. End with a user message.",
    );
  }
  const instructions = typeof system === "object" ? joinTextParts(system, "system") : system;
  return {
    fields: { ...fields, ...(stop !== undefined && stop.length > 0 && { stop }) },
    messages: [
      ...(instructions === undefined ? [] : [{ role: "system", content: instructions }]),
      ...fields.messages.flatMap((message, index) => chatMessages(message, `messages[${index}]`)),
    ],
    tools: tools.length === 0 ? undefined : tools,
    readsToolCalls: tools.length > 0 && fields.tool_choice?.type !== "none",
    maxTokens: undefined,
    constraint: constraintOf(
      flatFormatOf(fields.output_config?.format ?? fields.output_format),
      tools,
      callRules(fields.tool_choice),
    ),
    numTopLogprobs: 0,
    templateVariables: {},
    ignoredFields: [...unknownFields(messagesSchema, fields), ...(fields.thinking === undefined ? [] : ["thinking"])],
  };
}

function callRules(choice: z.output<typeof conversationSchema>["tool_choice"]): CallRules {
  const isParallel = choice?.disable_parallel_tool_use !== true;
  if (choice?.type === "tool") return { choice: { name: choice.name ?? "" }, isParallel };
  return { choice: choice?.type === "any" ? "required" : (choice?.type ?? "auto"), isParallel };
}

const refusedInMessages = { mcp_servers: [], container: [] };

const block = textPart.extend({
  id: text.optional(),
  name: text.optional(),
  thinking: text.optional(),
  input: z.unknown().optional(),
  tool_use_id: text.optional(),
  content: z.union([z.string(), z.array(textPart)], "a text or a list of text blocks").nullish(),
});
type Block = z.output<typeof block>;

const messageSchema = z.looseObject(
  {
    role: z.enum(["user", "assistant"], "user or assistant"),
    content: z.union([z.string(), z.array(block)], "a text or a list of blocks"),
  },
  "an object with role and content",
);

const toolSchema = z.looseObject(
  { type: text.nullish(), name: text, description: text.optional(), input_schema: z.unknown().optional() },
  "an object with a name",
);

const { stop: _stop, n: _n, ...drawing } = samplingFields;

const conversationSchema = z.looseObject({
  ...drawing,
  messages: messageList(messageSchema),
  system: z.union([z.string(), z.array(textPart)], "a text or a list of text blocks").optional(),
  tools: toolList(toolSchema).optional(),
  tool_choice: z
    .looseObject(
      {
        type: z.enum(["auto", "none", "any", "tool"], '"auto", "none", "any" or "tool"'),
        name: text.optional(),
        disable_parallel_tool_use: flag.optional(),
      },
      "an object with a type",
    )
    .optional(),
  stop_sequences: samplingFields.stop.pipe(z.array(z.string(), "a list of texts")).optional(),
  output_config: z.looseObject({ format: flatFormat.optional() }, "an object").optional(),
  output_format: flatFormat.optional(),
  thinking: z.unknown().optional(),
  cache_control: z.unknown().optional(),
});

const messagesSchema = conversationSchema.extend({ max_tokens: count });

function chatTool({ type, name, description, input_schema }: z.output<typeof toolSchema>, at: string): ChatTool {
  if (typeof type === "string" && type !== "custom") {
    throw requestError(
      at,
      `${at} has type ${JSON.stringify(type)}, a tool that Anthropic defines. This server knows custom tools only: describe it with name, description and input_schema.`,
    );
  }
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: input_schema ?? {} },
  };
}

function chatMessages({ role, content }: z.output<typeof messageSchema>, at: string): readonly ChatMessage[] {
  if (typeof content === "string") return [{ role, content }];
  return role === "assistant" ? [replyMessage(content, at)] : userMessages(content, at);
}

/** Thinking that its server keeps to itself is left out. */
function replyMessage(blocks: readonly Block[], at: string): ChatMessage {
  const said = blocks.map((one, index) => {
    const isText = one.type !== "tool_use" && one.type !== "thinking" && one.type !== "redacted_thinking";
    return isText ? blockText(one, `${at}.content[${index}]`) : "";
  });
  const calls = blocks.flatMap((one, index) =>
    one.type === "tool_use" ? [toolUse(one, `${at}.content[${index}]`)] : [],
  );
  const thoughts = blocks.map((one) => (one.type === "thinking" ? (one.thinking ?? "") : "")).join("");
  return {
    ...{ role: "assistant", content: said.join("") },
    ...(thoughts !== "" && { reasoning_content: thoughts }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Results of tools are messages of their own; text before, between and behind them stays in its place. */
function userMessages(blocks: readonly Block[], at: string): readonly ChatMessage[] {
  const messages: { role: string; content: string; tool_call_id?: string }[] = [];
  for (const [index, one] of blocks.entries()) {
    const name = `${at}.content[${index}]`;
    const last = messages.at(-1);
    if (one.type === "tool_result") messages.push(toolResult(one, name));
    else if (last?.role === "user") last.content += blockText(one, name);
    else messages.push({ role: "user", content: blockText(one, name) });
  }
  return messages;
}

function blockText(one: Block, name: string): string {
  return joinTextParts([one], name.replace(/\[\d+\]$/, ""));
}

function toolUse({ id, name, input }: Block, at: string): ChatToolCall {
  if (id === undefined || name === undefined) throw requestError(at, `${at} must have an id and a name.`);
  return { id, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
}

function toolResult({ tool_use_id, content }: Block, at: string) {
  if (tool_use_id === undefined) throw requestError(at, `${at} must have a tool_use_id.`);
  const said = typeof content === "object" && content !== null ? joinTextParts(content, `${at}.content`) : content;
  return { role: "tool", content: said ?? "", tool_call_id: tool_use_id };
}

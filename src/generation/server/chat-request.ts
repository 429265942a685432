/**
 * Requests to /v1/chat/completions.
 *
 * In: the body as the client sent it. Out: messages and tools for the chat template, and what was asked for. Roles and
 * content are brought into the form that templates know: parts become text, `developer` becomes `system`.
 */
import { z } from "zod";
import type { ChatMessage } from "../../flow/chat-message.ts";
import type { ChatCall } from "./chat-call.ts";
import { constraintOf, formatOf, guidedFields, responseFormat } from "./constraint-request.ts";
import { joinTextParts, textPart } from "./content-parts.ts";
import { expectShallow } from "./json-body.ts";
import { requestError } from "./openai-errors.ts";
import { count, flag, messageList, readFields, text, toolList, unknownFields, wholeNumber } from "./request-fields.ts";
import { refuseFields, samplingFields } from "./sampling-request.ts";

interface ChatRequest extends ChatCall {
  readonly logprobs: boolean;
}

export function parseChatRequest(body: unknown): ChatRequest {
  const fields = readFields(chatSchema, body);
  refuseFields(fields, refusedInChat);
  refuseModalities(fields.modalities);
  const { logprobs = false, top_logprobs: numTopLogprobs = 0, tool_choice: toolChoice, tools = [] } = fields;
  if (numTopLogprobs > 0 && !logprobs) throw requestError("top_logprobs", "top_logprobs needs logprobs to be true.");
  return {
    fields,
    messages: fields.messages.map(chatMessage),
    tools: tools.length === 0 ? undefined : tools,
    readsToolCalls: tools.length > 0 && toolChoice !== "none",
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens,
    logprobs,
    numTopLogprobs,
    constraint: constraintOf(formatOf(fields), tools, {
      choice: typeof toolChoice === "object" ? toolChoice.function : (toolChoice ?? "auto"),
      isParallel: fields.parallel_tool_calls ?? true,
    }),
    templateVariables: fields.chat_template_kwargs ?? {},
    ignoredFields: unknownFields(chatSchema, fields),
  };
}

const refusedInChat = {
  functions: [],
  function_call: [],
  audio: [],
  prediction: [],
  web_search_options: [],
  continue_final_message: [false],
};

const toolCallSchema = z.looseObject(
  {
    id: text.optional(),
    function: z.looseObject({ name: text, arguments: text }, "an object with name and arguments"),
  },
  "an object with id, type and function",
);

const messageSchema = z.looseObject(
  {
    role: z.enum(["system", "developer", "user", "assistant", "tool"], "system, developer, user, assistant or tool"),
    content: z.union([z.string(), z.null(), z.array(textPart)], "a text or a list of parts").optional(),
    name: text.nullish(),
    tool_calls: z.array(toolCallSchema, "a list of tool calls").nullish(),
    tool_call_id: text.nullish(),
    reasoning_content: text.nullish(),
  },
  "an object with role and content",
);

const toolSchema = z.looseObject(
  { type: z.literal("function", '"function"'), function: z.looseObject({ name: text }, "an object with a name") },
  "an object with type and function",
);

const chatSchema = z.looseObject({
  ...samplingFields,
  messages: messageList(messageSchema),
  max_completion_tokens: count.optional(),
  logprobs: flag.optional(),
  top_logprobs: wholeNumber("a whole number from 0 to 20", 0, 20).optional(),
  tools: toolList(toolSchema).optional(),
  tool_choice: z
    .union(
      [
        z.enum(["auto", "none", "required"]),
        z.looseObject({ type: z.literal("function"), function: z.looseObject({ name: text }) }),
      ],
      '"auto", "none", "required" or an object with type function and its name',
    )
    .optional(),
  parallel_tool_calls: flag.optional(),
  ...guidedFields,
  response_format: responseFormat.optional(),
  modalities: z.array(text, "a list of texts").optional(),
  reasoning_effort: z.unknown().optional(),
  chat_template_kwargs: z.record(z.string(), z.unknown(), "an object").optional(),
});

function refuseModalities(modalities: readonly string[] | undefined): void {
  if (modalities === undefined || modalities.every((modality) => modality === "text")) return;
  throw requestError("modalities", 'modalities must be ["text"]: this server writes text only.');
}

function chatMessage(message: z.output<typeof messageSchema>, index: number): ChatMessage {
  const { role, content, name, tool_calls, tool_call_id, reasoning_content } = message;
  return {
    role: role === "developer" ? "system" : role,
    content: Array.isArray(content) ? joinTextParts(content, `messages[${index}].content`) : (content ?? null),
    ...(typeof name === "string" && { name }),
    ...(tool_calls &&
      tool_calls.length > 0 && {
        tool_calls: tool_calls.map((call, at) => toolCall(call, `messages[${index}].tool_calls[${at}]`)),
      }),
    ...(typeof tool_call_id === "string" && { tool_call_id }),
    ...(typeof reasoning_content === "string" && { reasoning_content }),
  };
}

function toolCall(call: z.output<typeof toolCallSchema>, at: string) {
  const { name, arguments: given } = call.function;
  expectShallow(`${at}.function.arguments`, given);
  return {
    ...(call.id !== undefined && { id: call.id }),
    type: "function" as const,
    function: { name, arguments: given },
  };
}

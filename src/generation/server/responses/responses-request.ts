/** Requests to /v1/responses: the body as the client sent it, checked, and in the form that all chat calls have. */
import { z } from "zod";
import type { ChatMessage, ChatTool } from "../../../flow/chat-message.ts";
import type { ChatCall } from "../chat-call.ts";
import { constraintOf, flatFormat, flatFormatOf } from "../constraint-request.ts";
import { requestError } from "../openai-errors.ts";
import { count, flag, readFields, text, toolList, unknownFields, wholeNumber } from "../request-fields.ts";
import { refuseFields, samplingFields } from "../sampling-request.ts";
import { inputMessages, inputSchema } from "./input-items.ts";
import type { ResponseStore } from "./response-store.ts";

export interface ResponsesRequest extends ChatCall {
  /** The conversation without its instructions. */
  readonly conversation: readonly ChatMessage[];
  readonly stores: boolean;
  readonly logprobs: boolean;
  /** What an answer says again of its request. */
  readonly echo: object;
}

export function parseResponsesRequest(
  body: unknown,
  store: ResponseStore,
  sessionId: string | undefined,
): ResponsesRequest {
  const fields = readFields(responsesSchema, body);
  refuseFields(fields, refusedInResponses);
  const { instructions, previous_response_id: previousId, tools: given = [], include = [] } = fields;
  const tools = given.map((tool, index) => chatTool(tool, `tools[${index}]`));
  const earlier = previousId === undefined ? [] : conversationOf(store, sessionId, previousId);
  const asked = inputMessages(fields.input ?? [], (id) => store.findItem(sessionId, id));
  const conversation = [...earlier, ...asked];
  if (conversation.length === 0) throw requestError("input", "input must have at least one item.");
  const { reasoning, ...rest } = fields;
  return {
    fields,
    conversation,
    messages: instructions === undefined ? conversation : [{ role: "system", content: instructions }, ...conversation],
    tools: tools.length === 0 ? undefined : tools,
    readsToolCalls: tools.length > 0 && fields.tool_choice !== "none",
    maxTokens: fields.max_output_tokens,
    numTopLogprobs: fields.top_logprobs ?? 0,
    constraint: constraintOf(flatFormatOf(fields.text?.format), tools, {
      choice: fields.tool_choice ?? "auto",
      isParallel: fields.parallel_tool_calls ?? true,
    }),
    templateVariables: {},
    // How much a model thinks is its own affair, and that is said.
    ignoredFields: [...unknownFields(responsesSchema, rest), ...(reasoning === undefined ? [] : ["reasoning"])],
    stores: fields.store ?? true,
    logprobs: include.includes("message.output_text.logprobs"),
    echo: echoOf(fields),
  };
}

const refusedInResponses = {
  background: [false],
  conversation: [],
  prompt: [],
  truncation: ["disabled"],
};

const toolSchema = z.looseObject(
  { type: text, name: text.optional(), description: text.nullish(), parameters: z.unknown().optional() },
  "an object with a type",
);

const responsesSchema = z.looseObject({
  ...samplingFields,
  input: inputSchema.optional(),
  instructions: text.optional(),
  previous_response_id: text.optional(),
  max_output_tokens: count.optional(),
  store: flag.optional(),
  tools: toolList(toolSchema).optional(),
  tool_choice: z
    .union(
      [z.enum(["auto", "none", "required"]), z.looseObject({ type: z.literal("function"), name: text })],
      '"auto", "none", "required" or an object with type function and its name',
    )
    .optional(),
  parallel_tool_calls: flag.optional(),
  text: z.looseObject({ format: flatFormat.optional() }, "an object").optional(),
  include: z.array(text, "a list of texts").optional(),
  top_logprobs: wholeNumber("a whole number from 0 to 20", 0, 20).optional(),
  reasoning: z.unknown().optional(),
  truncation: z.unknown().optional(),
  background: z.unknown().optional(),
});

function chatTool({ type, name, description, parameters }: z.output<typeof toolSchema>, at: string): ChatTool {
  if (type !== "function") {
    throw requestError(
      at,
      `${at} has type ${JSON.stringify(type)}, a tool that OpenAI runs on its side. This server runs no tools: offer a function, and run it in the agent.`,
    );
  }
  if (name === undefined) throw requestError(`${at}.name`, `${at}.name must be a text: got nothing.`);
  return {
    type: "function",
    function: { name, ...(typeof description === "string" && { description }), parameters: parameters ?? {} },
  };
}

function conversationOf(store: ResponseStore, sessionId: string | undefined, id: string): readonly ChatMessage[] {
  const found = store.find(sessionId, id);
  if (found !== undefined) return found.messages;
  throw requestError(
    "previous_response_id",
    `Previous response with id ${JSON.stringify(id)} not found: it was not stored, belongs to another session, or is one of the oldest and forgotten. Send the whole conversation as input.`,
  );
}

function echoOf(fields: z.output<typeof responsesSchema>): object {
  return {
    instructions: fields.instructions ?? null,
    max_output_tokens: fields.max_output_tokens ?? null,
    metadata: fields.metadata ?? {},
    parallel_tool_calls: fields.parallel_tool_calls ?? true,
    previous_response_id: fields.previous_response_id ?? null,
    reasoning: { effort: null, summary: null },
    store: fields.store ?? true,
    temperature: fields.temperature ?? 1,
    text: fields.text ?? { format: { type: "text" } },
    tool_choice: fields.tool_choice ?? "auto",
    tools: fields.tools ?? [],
    top_p: fields.top_p ?? 1,
    truncation: "disabled",
    user: fields.user ?? null,
  };
}

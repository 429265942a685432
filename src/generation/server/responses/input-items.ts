/**
 * The input of /v1/responses as messages.
 *
 * A reply that came as several items (its thoughts, its text, its calls) is one assistant message again: that is how it was sampled, and
 * how its tokens are found.
 */
import { z } from "zod";
import type { ChatMessage, ChatToolCall } from "../../../flow/chat-message.ts";
import { joinTextParts, textPart } from "../content-parts.ts";
import { expectShallow } from "../json-body.ts";
import { requestError } from "../openai-errors.ts";
import { text } from "../request-fields.ts";
import type { OutputItem } from "./output-items.ts";

/** A template takes tens of microseconds for each, and nobody else is served meanwhile. */
const MAX_ITEMS = 4096;

const content = z.union([z.string(), z.array(textPart)], "a text or a list of parts");

const messageItem = z.looseObject({
  type: z.literal("message").optional(),
  role: z.enum(["system", "developer", "user", "assistant"], "system, developer, user or assistant"),
  content,
});

const callItem = z.looseObject({ type: z.literal("function_call"), call_id: text, name: text, arguments: text });

const callOutputItem = z.looseObject({ type: z.literal("function_call_output"), call_id: text, output: content });

const shownTexts = z.array(z.looseObject({ text }), "a list of texts");

const reasoningItem = z.looseObject({
  type: z.literal("reasoning"),
  summary: shownTexts.nullish(),
  content: shownTexts.nullish(),
});

const referenceItem = z.looseObject({ type: z.literal("item_reference"), id: text });

export const inputSchema = z.union(
  [
    z.string(),
    z.array(z.looseObject({ type: text.nullish() }), "a list").max(MAX_ITEMS, `a list of at most ${MAX_ITEMS} items`),
  ],
  "a text or a list of items",
);

/** @param findItem an item of an earlier answer, by its id */
export function inputMessages(
  input: z.output<typeof inputSchema>,
  findItem: (id: string) => OutputItem | undefined,
): readonly ChatMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const messages: OpenMessage[] = [];
  for (const [index, item] of input.entries()) addItem(messages, item, `input[${index}]`, findItem);
  return messages.map(({ isThinking: _, ...message }) => message);
}

/** A message that items may still add to. */
type OpenMessage = ChatMessage & {
  /** Whether a thought came last: what follows it is of the same reply. */
  readonly isThinking?: boolean;
};

function addItem(
  messages: OpenMessage[],
  item: Readonly<Record<string, unknown>>,
  name: string,
  findItem: (id: string) => OutputItem | undefined,
): void {
  switch (item.type ?? "message") {
    case "message":
      addMessage(messages, readItem(messageItem, item, name, "a message with role and content"), name);
      break;
    case "function_call":
      addCall(messages, toolCall(readItem(callItem, item, name, "a call with call_id, name and arguments"), name));
      break;
    case "function_call_output": {
      const { call_id, output } = readItem(callOutputItem, item, name, "an answer with call_id and output");
      messages.push({ role: "tool", content: contentText(output, `${name}.output`), tool_call_id: call_id });
      break;
    }
    case "item_reference": {
      const { id } = readItem(referenceItem, item, name, "a reference with an id");
      addItem(messages, { ...storedItem(id, name, findItem) }, name, findItem);
      break;
    }
    case "reasoning": {
      const { summary, content } = readItem(reasoningItem, item, name, "a thought with a summary");
      addThought(messages, (content?.length ? content : (summary ?? [])).map((part) => part.text).join("\n"));
      break;
    }
    default:
      throw requestError(
        name,
        `${name} has type ${JSON.stringify(item.type)}, which this server does not take. It takes message, function_call, function_call_output, item_reference and reasoning.`,
      );
  }
}

function addMessage(messages: OpenMessage[], { role, content: given }: z.output<typeof messageItem>, name: string) {
  const said = contentText(given, `${name}.content`);
  if (role === "assistant") addReplyText(messages, said);
  else messages.push({ role: role === "developer" ? "system" : role, content: said });
}

function toolCall({ call_id: id, name: called, arguments: given }: z.output<typeof callItem>, name: string) {
  expectShallow(`${name}.arguments`, given);
  return { id, type: "function" as const, function: { name: called, arguments: given } };
}

function contentText(given: z.output<typeof content>, name: string): string {
  return typeof given === "string" ? given : joinTextParts(given, name);
}

function storedItem(id: string, name: string, findItem: (id: string) => OutputItem | undefined): OutputItem {
  const found = findItem(id);
  if (found !== undefined) return found;
  throw requestError(
    name,
    `${name} refers to item ${JSON.stringify(id)}, which is not stored here. Send the item itself, or set store to true.`,
  );
}

function readItem<Schema extends z.ZodType>(
  schema: Schema,
  item: object,
  name: string,
  what: string,
): z.output<Schema> {
  const result = schema.safeParse(item);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw requestError(name, `${name} must be ${what}: ${issue?.path.join(".")} must be ${issue?.message}.`);
}

/** Text belongs to the reply before it where that has thought or called a tool: no reply has two texts with nothing between them. */
function addReplyText(messages: OpenMessage[], said: string): void {
  const last = messages.at(-1);
  if (last?.role === "assistant" && (last.tool_calls !== undefined || last.isThinking === true)) {
    messages[messages.length - 1] = { ...last, content: `${last.content ?? ""}${said}`, isThinking: false };
  } else messages.push({ role: "assistant", content: said });
}

function addThought(messages: OpenMessage[], thought: string): void {
  const last = messages.at(-1);
  if (last?.role === "assistant") {
    const reasoning_content = `${last.reasoning_content ?? ""}${thought}`;
    messages[messages.length - 1] = { ...last, reasoning_content, isThinking: true };
  } else messages.push({ role: "assistant", content: null, reasoning_content: thought, isThinking: true });
}

function addCall(messages: OpenMessage[], call: ChatToolCall): void {
  const last = messages.at(-1);
  if (last?.role === "assistant") {
    messages[messages.length - 1] = { ...last, tool_calls: [...(last.tool_calls ?? []), call], isThinking: false };
  } else messages.push({ role: "assistant", content: null, tool_calls: [call] });
}

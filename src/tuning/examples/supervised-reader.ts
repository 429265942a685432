/**
 * Rows of supervised learning: conversations, prompts with completions, or plain texts.
 *
 * | columns | read as |
 * |---|---|
 * | messages, or conversations | a conversation, with `tools` beside it |
 * | prompt and completion (or response), question and answer, instruction (with input) and output | a prompt and its reply |
 * | text | a text that is learned as a whole |
 */

import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { writeTurns } from "../../chat/written-turns.ts";
import type { DataRow, PlacedRow } from "../../data/data-row.ts";
import { valueAt } from "../../data/fill-template.ts";
import { rowError } from "../../data/to-prompt.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import { joinIds } from "../../flow/join-arrays.ts";
import type { TuningExample, TuningSequence } from "../../flow/tuning-example.ts";
import type { ObjectiveChoice } from "../../training/objectives/table.ts";
import type { ExampleReader, ReaderParts } from "./example-reader.ts";
import { readMessages, readTools, shown } from "./row-messages.ts";

type SupervisedChoice = Extract<ObjectiveChoice, { type: "supervised" }>;

/** What is in a row. */
type RowContent =
  | {
      readonly kind: "chat";
      readonly messages: readonly ChatMessage[];
      readonly tools?: readonly ChatTool[] | undefined;
    }
  | { readonly kind: "completion"; readonly prompt: string; readonly completion: string }
  | { readonly kind: "text"; readonly text: string };

/** Usual columns of a prompt and its reply. The first pair that a row has is taken. */
const PAIRS = [
  ["prompt", "completion"],
  ["prompt", "response"],
  ["question", "answer"],
  ["instruction", "output"],
] as const;

export function supervisedReader({ train, chat }: Pick<SupervisedChoice, "train" | "chat">): ExampleReader {
  return {
    fields: ["messages", "tools", "prompt", "completion", "text"],
    read: async (placed, parts) => {
      const content = readContent(placed, parts.fields, chat);
      switch (content.kind) {
        case "chat":
          return [await ofConversation(placed, content, parts, train)];
        case "completion":
          return [ofCompletion(content, parts.format.tokenizer, train)];
        case "text":
          return [{ sequences: [ofText(content.text, parts.format.tokenizer)] }];
      }
    },
  };
}

function readContent(placed: PlacedRow, fields: ReaderParts["fields"], isChat: boolean): RowContent {
  const { row } = placed;
  const has = (column: string | undefined) => column !== undefined && valueAt(row, column) !== undefined;
  const messages = fields.messages ?? ["messages", "conversations"].find(has);
  const named = fields.prompt === undefined ? PAIRS.find((pair) => pair.every(has)) : undefined;
  const [prompt, completion] = named ?? [fields.prompt, fields.completion ?? ["completion", "response"].find(has)];
  const text = fields.text ?? (has("text") ? "text" : undefined);
  const asked = ["messages", "prompt", "text"].find((name) => fields[name] !== undefined);
  if (asked === "messages" || (asked === undefined && messages !== undefined)) {
    const tools = readTools(placed, valueAt(row, fields.tools ?? "tools"));
    return { kind: "chat", messages: readMessages(placed, messages!, valueAt(row, messages!)), tools };
  }
  if (prompt !== undefined && completion !== undefined && asked !== "text") {
    return readPair(placed, prompt, completion, isChat, readTools(placed, valueAt(row, fields.tools ?? "tools")));
  }
  if (text !== undefined && asked !== "prompt") return { kind: "text", text: expectText(placed, text) };
  throw rowError(
    placed,
    "has nothing to learn: looked for messages, for prompt and completion (or response), question and answer, instruction and output, " +
      'and for text. Name the columns in data.fields, as in { prompt: "ask", completion: "reply" }',
  );
}

function readPair(
  placed: PlacedRow,
  prompt: string,
  completion: string,
  isChat: boolean,
  tools: readonly ChatTool[] | undefined,
): RowContent {
  const asked = valueAt(placed.row, prompt);
  const given = valueAt(placed.row, completion);
  if (Array.isArray(asked) || Array.isArray(given)) {
    const before = Array.isArray(asked) ? readMessages(placed, prompt, asked) : [user(expectText(placed, prompt))];
    const after = Array.isArray(given)
      ? readMessages(placed, completion, given)
      : [assistant(expectText(placed, completion))];
    return { kind: "chat", messages: [...before, ...after], tools };
  }
  const question = withInput(expectText(placed, prompt), placed.row, prompt);
  const reply = expectText(placed, completion);
  return isChat
    ? { kind: "chat", messages: [user(question), assistant(reply)], tools }
    : { kind: "completion", prompt: question, completion: reply };
}

/** Rows of instruction, input and output ask about the input, where there is one. */
function withInput(question: string, { input }: DataRow, column: string): string {
  return column === "instruction" && typeof input === "string" && input !== "" ? `${question}\n\n${input}` : question;
}

const user = (content: string): ChatMessage => ({ role: "user", content });
const assistant = (content: string): ChatMessage => ({ role: "assistant", content });

function expectText(placed: PlacedRow, column: string): string {
  const value = valueAt(placed.row, column);
  if (typeof value === "string" && value !== "") return value;
  throw rowError(
    placed,
    value === undefined || value === null || value === ""
      ? `has nothing in ${column}`
      : `has no text in ${column}: got ${shown(value)}`,
  );
}

async function ofConversation(
  placed: PlacedRow,
  { messages, tools }: Extract<RowContent, { kind: "chat" }>,
  { format }: ReaderParts,
  train: SupervisedChoice["train"],
): Promise<TuningExample> {
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  if (last === -1) throw rowError(placed, "has no reply to learn: none of its messages is the assistant's");
  const isTrained = (message: number) => (train === "last" ? message === last : !isWithoutWeight(messages[message]!));
  const turns = await writeTurns(format, messages, tools);
  const sequences = turns.flatMap(({ tokenIds, replies }): TuningSequence[] => {
    const lossMask = new Uint8Array(tokenIds.length);
    if (train === "all") lossMask.fill(1, 1);
    // Nothing stands before the first token that could tell it.
    else
      for (const { message, start, end } of replies) if (isTrained(message)) lossMask.fill(1, Math.max(1, start), end);
    return lossMask.includes(1) ? [{ tokenIds, lossMask }] : [];
  });
  if (sequences.length === 0) throw rowError(placed, "has no reply to learn: all of them have weight 0");
  return { sequences };
}

/** Messages of the assistant may say that they are context only, as in OpenAI's format for fine-tuning. */
function isWithoutWeight(message: ChatMessage): boolean {
  return "weight" in message && message.weight === 0;
}

function ofCompletion(
  { prompt, completion }: Extract<RowContent, { kind: "completion" }>,
  tokenizer: Tokenizer,
  train: SupervisedChoice["train"],
): TuningExample {
  const promptIds = tokenizer.encode(prompt, { addSpecialTokens: true });
  const tokenIds = joinIds([promptIds, tokenizer.encode(completion), endOf(tokenizer)]);
  const start = train === "all" ? 1 : Math.max(1, promptIds.length);
  return { sequences: [{ tokenIds, lossMask: new Uint8Array(tokenIds.length).fill(1, start) }] };
}

function ofText(text: string, tokenizer: Tokenizer): TuningSequence {
  const ids = tokenizer.encode(text, { addSpecialTokens: true });
  const end = endOf(tokenizer);
  const tokenIds = ids.at(-1) === end[0] ? ids : joinIds([ids, end]);
  return { tokenIds, lossMask: new Uint8Array(tokenIds.length).fill(1, 1) };
}

/** The token that ends a text, where the tokenizer has a special one. */
function endOf(tokenizer: Tokenizer): readonly number[] {
  return [tokenizer.eosId, ...tokenizer.stopIds]
    .filter((id) => id !== undefined && tokenizer.specialIds.has(id))
    .slice(0, 1) as number[];
}

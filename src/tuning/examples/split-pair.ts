/** Where prompts end and replies begin: conversations cut where they part, replies checked. */
import { isDeepStrictEqual } from "node:util";
import type { PlacedRow } from "../../data/data-row.ts";
import { rowError } from "../../data/to-prompt.ts";
import type { ChatMessage } from "../../flow/chat-message.ts";

type Turns = readonly ChatMessage[];

/** Two replies to one prompt. Each starts and ends with a message of the assistant. */
export interface ReplyPair {
  readonly prompt: Turns;
  readonly chosen: Turns;
  readonly rejected: Turns;
}

/** Cuts two whole conversations where they part. The prompt is what they share up to the first reply in which they differ. */
export function splitPair(placed: PlacedRow, chosen: Turns, rejected: Turns): ReplyPair {
  if (isDeepStrictEqual(chosen, rejected)) throw rowError(placed, "has equal replies in chosen and rejected");
  for (const [column, turns] of Object.entries({ chosen, rejected })) expectEnd(placed, turns, column);
  const start = firstDifference(chosen, rejected);
  if (start <= 0) throw rowError(placed, "has no prompt: chosen and rejected share no message before a reply");
  return {
    prompt: chosen.slice(0, start),
    chosen: expectReply(placed, chosen.slice(start), "chosen"),
    rejected: expectReply(placed, rejected.slice(start), "rejected"),
  };
}

/** The messages, if they start and end with the assistant and none of its messages is empty. */
export function expectReply(placed: PlacedRow, turns: Turns, column: string): Turns {
  const [first] = turns;
  if (first === undefined) throw rowError(placed, `has no reply in ${column}`);
  if (first.role !== "assistant") {
    throw rowError(
      placed,
      `must have a reply of the assistant where ${column} goes on after the prompt: got a message of the role ${JSON.stringify(first.role)}`,
    );
  }
  expectEnd(placed, turns, column);
  if (turns.some((turn) => turn.role === "assistant" && isEmpty(turn)))
    throw rowError(placed, `has an empty reply in ${column}`);
  return turns;
}

function expectEnd(placed: PlacedRow, turns: Turns, column: string): void {
  const role = turns.at(-1)?.role;
  if (role === "assistant") return;
  throw rowError(
    placed,
    `must end with a message of the assistant in ${column}: got one of the role ${JSON.stringify(role)}`,
  );
}

/** The place of the first message that differs; where one conversation only goes on, that of the last reply they share. */
function firstDifference(a: Turns, b: Turns): number {
  const shorter = Math.min(a.length, b.length);
  const found = a.slice(0, shorter).findIndex((turn, i) => !isDeepStrictEqual(turn, b[i]));
  return found >= 0 ? found : a.slice(0, shorter).findLastIndex(({ role }) => role === "assistant");
}

function isEmpty({ content, tool_calls = [] }: ChatMessage): boolean {
  return (
    tool_calls.length === 0 && (typeof content === "string" ? content.trim() === "" : (content ?? []).length === 0)
  );
}

import type { ChatFormat } from "../../chat/conversation.ts";
import { writeTurns } from "../../chat/written-turns.ts";
import type { PlacedRow } from "../../data/data-row.ts";
import { rowError } from "../../data/to-prompt.ts";
import type { TuningSequence } from "../../flow/tuning-example.ts";
import type { PromptReply } from "./preference-rows.ts";

/** A prompt with its reply as one token sequence. The loss counts what the assistant says after the prompt. */
export async function replySequence(
  placed: PlacedRow,
  { prompt, reply, tools }: PromptReply,
  format: ChatFormat,
): Promise<TuningSequence> {
  const written = await writeTurns(format, [...prompt, ...reply], tools);
  const sequences = written.flatMap(({ tokenIds, replies }): TuningSequence[] => {
    const lossMask = new Uint8Array(tokenIds.length);
    for (const { message, start, end } of replies) if (message >= prompt.length) lossMask.fill(1, start, end);
    return lossMask.includes(1) ? [{ tokenIds, lossMask }] : [];
  });
  const [first, ...others] = sequences;
  if (first !== undefined && others.length === 0) return first;
  throw rowError(
    placed,
    "has several messages of the assistant after the prompt, and the chat template shows earlier ones in another way than they were written, " +
      "so that they are no single sequence. Cut the row after its first reply",
  );
}

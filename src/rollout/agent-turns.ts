/** Turns what the server has recorded of a session into the turns of a trajectory. */

import type { ChatFormat } from "../chat/conversation.ts";
import type { Turn } from "../flow/trajectory.ts";
import type { FinishedSession, SessionTurn } from "../generation/server/session-record.ts";

/**
 * The turns of a session, with the turns of one row together: a run of turns that extend each other is one row, and
 * `buildSamples` finds the same rows. A call that came as a text has no messages: what it answered is the text of its new
 * tokens.
 *
 * @param startedMs of the trajectory, on the server's clock
 */
export function agentTurns({ samples }: FinishedSession, format: ChatFormat, startedMs: number): readonly Turn[] {
  return samples.flatMap(({ turns }) =>
    turns.map((turn, i): Turn => {
      const { promptIds, finish, startedMs: turnMs, generateMs, chat, ...reply } = turn;
      const before = turns[i - 1];
      const numKnown = before === undefined ? 0 : before.promptIds.length + before.tokenIds.length;
      return {
        promptIds,
        reply,
        replyText: format.replyText(reply),
        messages: chat?.messages ?? [{ role: "user", content: format.tokenizer.decode(promptIds.subarray(numKnown)) }],
        ...(chat && { chat: { reply: chat.reply, tools: chat.tools } }),
        finish: finish.kind,
        ...{ reward: 0, metrics: {}, startedMs: turnMs - startedMs, generateMs, envMs: 0 },
      };
    }),
  );
}

/** The turn of these sessions that ended last; undefined if there is none. */
export function lastTurn(sessions: readonly FinishedSession[]): SessionTurn | undefined {
  const endMs = ({ startedMs, generateMs }: SessionTurn) => startedMs + generateMs;
  return sessions
    .flatMap(({ samples }) => samples.flatMap(({ turns }) => turns))
    .reduce<SessionTurn | undefined>(
      (last, turn) => (last === undefined || endMs(turn) >= endMs(last) ? turn : last),
      undefined,
    );
}

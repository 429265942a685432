/**
 * The tokens of a trajectory with every number that is known of them.
 *
 * In: the answer of the server. Out: tokens in the order in which they were read and written. A prompt shows only what is new since
 * the turn before.
 */
import type { TrajectoryAnswer } from "../../../src/dashboard/answers.ts";

/** One token. Numbers are null where the token was not sampled or the run did not record them. */
export interface Token {
  readonly id: number;
  readonly text: string;
  readonly turn: number;
  /** Whether the loss counts it: the model wrote it, and the trajectory was trained on. */
  readonly isLoss: boolean;
  readonly isReply: boolean;
  readonly logprob: number | null;
  readonly policyLogprob: number | null;
  /** exp(policy - sampler). */
  readonly ratio: number | null;
  readonly entropy: number | null;
  readonly advantage: number | null;
  readonly version: number | null;
}

export function listTokens({ record, texts, advantage }: TrajectoryAnswer): readonly Token[] {
  const isTrained = record.fate === "delivered";
  return record.turns.flatMap((turn, index) => {
    const prompt = turn.promptIds.map((id, i) => ({
      ...{ id, turn: index, isLoss: false, isReply: false },
      ...{ logprob: null, policyLogprob: null, ratio: null, entropy: null, advantage: null, version: null },
      text: texts?.[index]?.prompt[i] ?? `[${id}]`,
    }));
    const reply = turn.tokenIds.map((id, i) => {
      const logprob = turn.samplerLogprobs[i] ?? null;
      const policyLogprob = turn.policyLogprobs?.[i] ?? null;
      return {
        ...{ id, turn: index, isReply: true, logprob, policyLogprob },
        isLoss: isTrained && (turn.lossMask?.[i] ?? true),
        ratio: logprob === null || policyLogprob === null ? null : Math.exp(policyLogprob - logprob),
        entropy: turn.entropies?.[i] ?? null,
        advantage: turn.advantages?.[i] ?? advantage,
        version: turn.versions[i] ?? null,
        text: texts?.[index]?.reply[i] ?? `[${id}]`,
      };
    });
    return [...prompt, ...reply];
  });
}

/** What stands before the tokens of each turn: its number, and how it goes on from the turn before. */
export function turnHeads({ record }: TrajectoryAnswer): readonly string[] {
  return record.turns.map(({ promptFrom, promptIds }, index) => {
    const before = record.turns[index - 1];
    if (before === undefined) return "turn 1";
    const numBefore = before.promptFrom + before.promptIds.length + before.tokenIds.length;
    if (promptFrom === numBefore) return `turn ${index + 1}, which goes on from there`;
    const rest = promptIds.length === 0 ? "all" : `the first ${promptFrom}`;
    return `turn ${index + 1}, a prompt of its own: ${rest} of its tokens are as before`;
  });
}

/** The token for which a number is largest; -1 when it is known of none. */
export function worstToken(tokens: readonly Token[], badness: (token: Token) => number | null): number {
  let worst = -1;
  let most = Number.NEGATIVE_INFINITY;
  tokens.forEach((token, i) => {
    const value = badness(token);
    if (value === null || value <= most) return;
    worst = i;
    most = value;
  });
  return worst;
}

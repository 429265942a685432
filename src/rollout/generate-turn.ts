/**
 * One reply of the model, which may be sampled in several pieces.
 *
 * When the gate closes, the tokens so far are kept; when it opens again the rest is sampled, under whatever weights there are
 * then. Every token says its version, so a reply may span several.
 */
import type { Clock } from "../flow/clock.ts";
import { joinIds } from "../flow/join-arrays.ts";
import { joinTokens, type SampledTokens, tokensOnly } from "../flow/sampled-tokens.ts";
import type { Finish, Generate, GenerateRequest } from "../generation/generate.ts";
import { deriveSeed } from "../random/random.ts";
import { type Attempt, attempt, OVER, type Wait } from "./failure-policy.ts";
import type { Gate } from "./gate.ts";

export interface TurnReply {
  readonly reply: SampledTokens;
  readonly finish: Finish;
  /** Time that the gate held the reply back, in milliseconds. */
  readonly heldMs: number;
}

export interface TurnRequest extends Omit<GenerateRequest, "signal"> {
  /** The time limit applies to each piece of a reply: time held back does not count. */
  readonly wait: Omit<Wait, "stop">;
  readonly clock: Clock;
  /** Told before every piece, and whenever the gate holds one back. */
  readonly onStage?: ((stage: "generating" | "held") => void) | undefined;
}

/** The sampling seed is that of the reply; pieces after the first derive their own from it. */
export async function generateTurn(
  generate: Generate,
  gate: Gate,
  { wait, clock, onStage, ...request }: TurnRequest,
): Promise<Attempt<TurnReply>> {
  const { promptIds, sampling } = request;
  const pieces: SampledTokens[] = [];
  let numTokens = 0;
  let heldMs = 0;
  for (;;) {
    // It may have closed again before its opening was heard of.
    while (!gate.isOpen && !wait.signal.aborted) {
      onStage?.("held");
      const heldAtMs = clock();
      await gate.whenOpen(wait.signal);
      heldMs += clock() - heldAtMs;
    }
    onStage?.("generating");
    // Its own: what an engine leaves behind ends with its reply, and must not end the episode, which may go on.
    const stop = new AbortController();
    const unlisten = gate.onClose(() => stop.abort(OVER));
    const piece = await attempt({ ...wait, stop }, (signal) =>
      generate({
        signal,
        ...request,
        promptIds: pieces.length === 0 ? promptIds : joinIds([promptIds, ...pieces.map(({ tokenIds }) => tokenIds)]),
        sampling: {
          ...sampling,
          maxTokens: sampling.maxTokens - numTokens,
          ...(pieces.length > 0 && { seed: deriveSeed(sampling.seed ?? 0, "piece", pieces.length) }),
        },
      }),
    );
    unlisten();
    if (piece.kind !== "done") return piece;
    const generation = piece.value;
    pieces.push(generation);
    numTokens += generation.tokenIds.length;
    const isHeld = generation.finish.kind === "aborted" && !wait.signal.aborted;
    if (isHeld && numTokens < sampling.maxTokens) continue;
    const finish: Finish = isHeld ? { kind: "length", limit: "max-tokens" } : generation.finish;
    return { kind: "done", value: { reply: joinTokens(pieces.map(tokensOnly)), finish, heldMs } };
  }
}

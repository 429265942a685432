/**
 * One reply of the model, which may be sampled in several pieces.
 *
 * When the gate closes, the tokens so far are kept; when it opens again the rest is sampled, under whatever weights there are
 * then. Every token says its version, so a reply may span several.
 */
import type { SampledTokens } from "../flow/sampled-tokens.ts";
import type { Finish, Generate, GenerateRequest } from "../generation/generate.ts";
import { deriveSeed } from "../random/random.ts";
import { type Attempt, attempt, type Wait } from "./failure-policy.ts";
import type { Gate } from "./gate.ts";

export interface TurnReply {
  readonly reply: SampledTokens;
  readonly finish: Finish;
}

export interface TurnRequest extends Omit<GenerateRequest, "signal"> {
  /** Its time limit is for each piece: being held back does not count. */
  readonly wait: Wait;
}

/** The sampling seed is that of the reply; pieces after the first derive their own from it. */
export async function generateTurn(
  generate: Generate,
  gate: Gate,
  { wait, ...request }: TurnRequest,
): Promise<Attempt<TurnReply>> {
  const { promptIds, sampling } = request;
  const pieces: SampledTokens[] = [];
  let numTokens = 0;
  for (;;) {
    await gate.whenOpen(wait.signal);
    const piece = await attempt(wait, (signal) =>
      untilClosed(gate, signal, (stop) =>
        generate({
          ...request,
          promptIds: pieces.length === 0 ? promptIds : joinIds([promptIds, ...pieces.map(({ tokenIds }) => tokenIds)]),
          sampling: {
            ...sampling,
            maxTokens: sampling.maxTokens - numTokens,
            ...(pieces.length > 0 && { seed: deriveSeed(sampling.seed ?? 0, "piece", pieces.length) }),
          },
          signal: stop,
        }),
      ),
    );
    if (piece.kind !== "done") return piece;
    const generation = piece.value;
    pieces.push(generation);
    numTokens += generation.tokenIds.length;
    const isHeld = generation.finish.kind === "aborted" && !wait.signal.aborted;
    if (isHeld && numTokens < sampling.maxTokens) continue;
    const finish: Finish = isHeld ? { kind: "length", limit: "max-tokens" } : generation.finish;
    return { kind: "done", value: { reply: joinTokens(pieces), finish } };
  }
}

/** Runs `work` with a signal that follows both the gate and the outer signal. */
async function untilClosed<Result>(
  gate: Gate,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const stop = new AbortController();
  const abort = () => stop.abort();
  const unlisten = gate.onClose(abort);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted || !gate.isOpen) abort();
  return work(stop.signal).finally(() => {
    unlisten();
    signal.removeEventListener("abort", abort);
  });
}

function joinTokens(pieces: readonly SampledTokens[]): SampledTokens {
  const [only] = pieces;
  if (pieces.length === 1 && only !== undefined) {
    const { tokenIds, samplerLogprobs, modelLogprobs, versions } = only;
    return { tokenIds, samplerLogprobs, modelLogprobs, versions };
  }
  return {
    tokenIds: joinIds(pieces.map((piece) => piece.tokenIds)),
    samplerLogprobs: joinFloats(pieces.map((piece) => piece.samplerLogprobs)),
    modelLogprobs: joinFloats(pieces.map((piece) => piece.modelLogprobs)),
    versions: joinIds(pieces.map((piece) => piece.versions)),
  };
}

function joinIds(parts: readonly ArrayLike<number>[]): Int32Array {
  const joined = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

function joinFloats(parts: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/**
 * A server elsewhere as an engine of a pool: what it is doing is counted here, and whether it still answers.
 *
 * A server may end the replies under way when it is given new weights. They go on with the tokens they have, which keep their log-probs and
 * versions, and are continued by the new weights.
 */
import { deriveSeed } from "../../random/random.ts";
import type { EngineStatus, ServedEngine } from "../engine.ts";
import type { Generate, GenerateRequest, Generation } from "../generate.ts";
import { MovedReply } from "../pool/moved-reply.ts";
import type { RemoteEngine } from "./connect-remote.ts";
import type { GivenWeights } from "./remote-weights.ts";

/** Servers have queues of their own; this is the most that a pool lets wait there. */
const MAX_QUEUED = 16_384;

/** A reply that was broken off this often without a single token is not asked for again. */
const MAX_EMPTY = 8;

/** Ends of a reply after which the server is taken for gone. */
const GONE: ReadonlySet<string> = new Set(["REMOTE_UNAVAILABLE", "REMOTE_TAKEN"]);

export function servedRemote(remote: RemoteEngine, weights: Pick<GivenWeights, "announced">): ServedEngine {
  const counters = {
    ...{ requests: 0, finished: 0, aborted: 0, failed: 0 },
    ...{ prefilledTokens: 0, cachedTokens: 0, generatedTokens: 0, steps: 0 },
  };
  const stops = new Set<AbortController>();
  let brokenBy: string | undefined;
  const count = ({ finish, usage }: Generation) => {
    const { kind } = finish;
    counters[kind === "aborted" || kind === "failed" ? kind : "finished"]++;
    counters.prefilledTokens += usage.promptTokens - usage.cachedTokens;
    counters.cachedTokens += usage.cachedTokens;
    counters.generatedTokens += usage.generatedTokens;
    if (finish.kind === "failed" && GONE.has(finish.error.code)) brokenBy = finish.error.message;
  };
  const generate: Generate = async (request) => {
    const stop = new AbortController();
    const signal = request.signal === undefined ? stop.signal : AbortSignal.any([request.signal, stop.signal]);
    counters.requests++;
    stops.add(stop);
    try {
      const generation = await generateOn(remote, { ...request, signal });
      count(generation);
      return generation;
    } finally {
      stops.delete(stop);
    }
  };
  return {
    generate,
    abortAll: async () => {
      for (const stop of stops) stop.abort();
    },
    status: (): EngineStatus => ({
      version: weights.announced?.version ?? 0,
      isPaused: false,
      ...(brokenBy !== undefined && { brokenBy }),
      queuedRequests: 0,
      runningRequests: stops.size,
      maxQueuedRequests: MAX_QUEUED,
      contextLength: remote.facts.contextLength,
      cacheUsage: 0,
      counters: { ...counters },
    }),
    // The connection belongs to whoever opened it: it serves again when the server is back.
    close: async () => {},
  };
}

async function generateOn(remote: RemoteEngine, request: GenerateRequest): Promise<Generation> {
  const reply = new MovedReply(request, () => remote.facts.contextLength);
  for (let numEmpty = 0; ; ) {
    const generation = await remote.generate(continued(reply));
    numEmpty = generation.tokenIds.length === 0 ? numEmpty + 1 : 0;
    const isBroken = generation.finish.kind === "aborted" && !request.signal?.aborted && numEmpty < MAX_EMPTY;
    if (!isBroken) return reply.joined(generation);
    const finish = reply.interrupt(generation);
    if (finish !== null) return reply.ended(finish);
  }
}

/** Servers count draws from the beginning of a request: with the same seed, the second part would be drawn as the first was. */
function continued({ remaining, numDrawn }: MovedReply): GenerateRequest {
  const { seed } = remaining.sampling;
  if (numDrawn === 0 || seed === undefined) return remaining;
  return { ...remaining, sampling: { ...remaining.sampling, seed: deriveSeed(seed, `continued at ${numDrawn}`) } };
}

/**
 * Runs rewards so that each ends, and ends as a value.
 *
 * Comes in: what a reward sees of a trajectory. Goes out: a score, or the reason why there is none; never a made-up zero,
 * and `score` itself never rejects. Every cost class has a pool: a reward waits for a slot of its class and frees it when
 * it settles or its time is up. One that does not stop when its signal says so is left alone and its result ignored;
 * one that never gives the thread back cannot be stopped from here, which is what worker threads and sandboxes are for.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Prompt } from "../flow/prompt.ts";
import { abortedError, createBoundedPool, type PoolLimits } from "./bounded-pool.ts";
import { type LinkedAbort, linkedAbort, ownAbort } from "./linked-abort.ts";
import type { AnswerReader, CostClass, Reward, RewardInput, RewardScore } from "./reward.ts";
import { expectScore, rewardFailure } from "./reward-failure.ts";
import type { RewardRoute } from "./route-by-domain.ts";

export type RewardOutcome =
  | {
      readonly kind: "scored";
      readonly score: number;
      /** The score by the name of the reward, and what the reward shows beside it as `<name>/<part>`. */
      readonly parts: Readonly<Record<string, number>>;
      /** Empty where the reward gave none. */
      readonly explanation: string;
      /** Without the wait for a slot. */
      readonly elapsedMs: number;
    }
  | { readonly kind: "failed"; readonly error: RerollError; readonly elapsedMs: number };

interface CostLimits extends PoolLimits {
  /** From when it has its slot. */
  readonly timeoutMs: number;
}

/** Enough for the rewards of this project on one machine. A judge or sandbox with limits of its own stays below them. */
const defaultLimits: Readonly<Record<CostClass, CostLimits>> = {
  instant: { concurrency: 256, maxQueued: 65_536, timeoutMs: 1_000 },
  // These wait for threads of their own; what they can tell at once must not wait behind what needs a thread.
  cpu: { concurrency: 4_096, maxQueued: 65_536, timeoutMs: 30_000 },
  sandbox: { concurrency: 16, maxQueued: 65_536, timeoutMs: 60_000 },
  model: { concurrency: 256, maxQueued: 65_536, timeoutMs: 120_000 },
  network: { concurrency: 64, maxQueued: 65_536, timeoutMs: 300_000 },
};

interface ScorerOptions {
  /** One reward for all prompts, or a route. */
  readonly reward: Reward | RewardRoute;
  /** What differs from `defaultLimits`. */
  readonly limits?: Readonly<Partial<Record<CostClass, Partial<CostLimits>>>>;
  readonly clock: Clock;
}

export interface Scorer {
  /** @param stop aborts the signal, for whoever has nothing else that hangs on it: rewards then get this signal and none of their own */
  score(input: RewardInput, signal: AbortSignal, stop?: AbortController): Promise<RewardOutcome>;
  /** How answers to a prompt are read, where its reward reads any. */
  answersOf(prompt: Prompt): AnswerReader | undefined;
  /** Calls off what is running, and closes every reward. */
  close(): Promise<void>;
}

export function createScorer({ reward, limits = {}, clock }: ScorerOptions): Scorer {
  const route: RewardRoute = "choose" in reward ? reward : { choose: () => reward, rewards: [reward] };
  const lane = (cost: CostClass) => {
    const { timeoutMs, ...bounds } = { ...defaultLimits[cost], ...limits[cost] };
    return { pool: createBoundedPool(bounds), timeoutMs };
  };
  const lanes: Readonly<Record<CostClass, ReturnType<typeof lane>>> = {
    instant: lane("instant"),
    cpu: lane("cpu"),
    sandbox: lane("sandbox"),
    model: lane("model"),
    network: lane("network"),
  };
  let isClosed = false;
  // Not by a signal that all follow: to take one of a thousand listeners away again, Node looks through all of them.
  const running = new Set<LinkedAbort>();

  return {
    score: async (input, signal, given) => {
      const chosen = choose(route, input);
      if (chosen instanceof RerollError) return { kind: "failed", error: chosen, elapsedMs: 0 };
      const { name, cost } = chosen;
      const { pool, timeoutMs } = lanes[cost];
      const stop = given === undefined ? linkedAbort(signal) : ownAbort(given);
      if (isClosed) stop.abort();
      running.add(stop);
      let startedMs = clock();
      try {
        const given = await pool.run(() => {
          startedMs = clock();
          return scoreInTime(chosen, input, stop, timeoutMs);
        }, stop.signal);
        const { value, parts = {}, explanation = "" } = expectScore(name, given);
        const elapsedMs = clock() - startedMs;
        return {
          kind: "scored",
          score: value,
          parts: { [name]: value, ...prefixed(name, parts) },
          explanation,
          elapsedMs,
        };
      } catch (cause) {
        const { code, message, details } = rewardFailure(name, cause);
        const error = new RerollError(code, message, { ...details, prompt: input.prompt.id }, { cause });
        return { kind: "failed", error, elapsedMs: clock() - startedMs };
      } finally {
        stop.unlink();
        running.delete(stop);
      }
    },
    answersOf: (prompt) => {
      const chosen = choose(route, { prompt });
      return chosen instanceof RerollError ? undefined : chosen.answers;
    },
    close: async () => {
      isClosed = true;
      for (const stop of running) stop.abort();
      await Promise.all(route.rewards.map((each) => each.close?.()));
    },
  };
}

function choose(route: RewardRoute, { prompt }: Pick<RewardInput, "prompt">): Reward | RerollError {
  try {
    return route.choose(prompt);
  } catch (cause) {
    return cause instanceof RerollError ? cause : rewardFailure("route", cause);
  }
}

/** The reward, its time limit and the outer signal: whichever comes first. */
async function scoreInTime(
  reward: Reward,
  input: RewardInput,
  { signal, abort }: LinkedAbort,
  timeoutMs: number,
): Promise<RewardScore> {
  if (signal.aborted) throw abortedError();
  const scored = reward.score(input, signal);
  // By what it can do: a promise of another library or realm is no instance of ours. A broken reward gives anything.
  if (typeof (scored as Partial<Promise<RewardScore>> | null | undefined)?.then !== "function") return scored;
  let isLate = false;
  const reason = () => (isLate ? timeoutError(timeoutMs) : abortedError());
  let stop = () => {};
  const timer = setTimeout(() => {
    isLate = true;
    abort();
  }, timeoutMs);
  try {
    const score = await new Promise<RewardScore>((resolve, reject) => {
      stop = () => reject(reason());
      signal.addEventListener("abort", stop, { once: true });
      void passOn(scored, resolve, reject);
    });
    // It may have answered because it was told to stop, which is not in time.
    if (signal.aborted) throw reason();
    return score;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    abort();
  }
}

async function passOn<Value>(
  promise: PromiseLike<Value> | Value,
  resolve: (value: Value) => void,
  reject: (cause: unknown) => void,
): Promise<void> {
  try {
    resolve(await promise);
  } catch (cause) {
    reject(cause);
  }
}

function prefixed(name: string, parts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(parts).map(([key, part]) => [`${name}/${key}`, part]));
}

function timeoutError(timeoutMs: number): RerollError {
  return new RerollError(
    "REWARD_TIMEOUT",
    `it took longer than ${timeoutMs} ms. Raise timeoutMs of its cost class, or make it faster.`,
    { timeoutMs },
  );
}

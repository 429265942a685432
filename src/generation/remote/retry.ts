/** How long to wait before the next attempt. */

export interface RetryOptions {
  /** Attempts in all. Default 6. */
  readonly maxAttempts?: number;
  /** Before the second attempt; doubles with each. Default 250. */
  readonly retryDelayMs?: number;
  /** Default 15 seconds. A server that asks for more gets it, up to a minute. */
  readonly maxRetryDelayMs?: number;
  /** Spreads the waits of requests that failed together. */
  readonly seed?: number;
}

const MAX_RETRY_AFTER_MS = 60_000;

/** Returns the waits, in milliseconds; `attempt` is 1 after the first failure. Undefined: give up. */
export function createRetryDelays(
  options: RetryOptions = {},
): (attempt: number, retryAfterMs: number | undefined) => number | undefined {
  const { maxAttempts = 6, retryDelayMs = 250, maxRetryDelayMs = 15_000, seed = 1 } = options;
  let state = seed >>> 0;
  return (attempt, retryAfterMs) => {
    if (attempt >= maxAttempts) return undefined;
    // A linear congruential generator (Numerical Recipes) is random enough to spread retries.
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const spread = 0.5 + state / 2 ** 33;
    const backoff = Math.min(maxRetryDelayMs, retryDelayMs * 2 ** (attempt - 1)) * spread;
    return Math.max(backoff, Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS));
  };
}

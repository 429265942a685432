/**
 * A reward in a worker thread: one that hangs or crashes fails its own score, and is replaced.
 *
 * Scores that were asked of a lost thread beside the one that it was busy with, which is the oldest, are asked once more of the next
 * thread: a reward is a function of what it sees.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { WatchedThread } from "../workers/watched-thread.ts";
import type { Reward, RewardInput, RewardScore } from "./reward.ts";
import type { RewardThreadHost, RewardThreadSource } from "./thread-host.ts";

interface RewardThreadOptions {
  /** What is known of the reward without building it. */
  readonly reward: Pick<Reward, "name" | "cost">;
  readonly source: RewardThreadSource;
  /** How long the thread may say nothing before it is ended. */
  readonly silentMs: number;
}

/** Starts the thread. */
export function runRewardInThread({ reward, source, silentMs }: RewardThreadOptions): Reward {
  const { name, cost } = reward;
  const start = () =>
    new WatchedThread<RewardThreadHost>({
      name: `Reward "${name}"`,
      module: new URL("reward-worker", import.meta.url),
      source,
      needsTypeScript: source.module.endsWith(".ts"),
      timeoutMs: silentMs,
      codes: { lost: "REWARD_CRASHED", failed: "REWARD_FAILED" },
    });
  let thread = start();
  let isClosed = false;
  // In the order in which they were asked for.
  const asked = new Set<RewardInput>();

  async function ask(input: RewardInput, signal: AbortSignal, isLast: boolean): Promise<RewardScore> {
    if (!thread.isRunning && !isClosed) thread = start();
    const current = thread;
    asked.add(input);
    try {
      return await current.ask((host) => host.score(input, signal), signal);
    } catch (error) {
      const isLost = error instanceof RerollError && error.code === "REWARD_CRASHED" && !isClosed;
      const [oldest] = asked;
      if (!isLost || isLast || oldest === input || signal.aborted) throw error;
    } finally {
      asked.delete(input);
    }
    return ask(input, signal, true);
  }

  return {
    name,
    // It waits for a thread now, which may have to be replaced first.
    cost: cost === "instant" ? "cpu" : cost,
    score: (input, signal) => ask(input, signal, false),
    close: async () => {
      isClosed = true;
      await thread.close();
    },
  };
}

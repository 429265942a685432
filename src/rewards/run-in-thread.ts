/**
 * A reward in a worker thread: one that hangs or crashes fails its own score, and is replaced.
 *
 * Scores that were asked of a lost thread beside the one that it was busy with are asked again of the next thread: a reward is a function
 * of what it sees. Where nobody knows which one that was, all of them fail.
 */
import { WatchedThread, wasLostElsewhere } from "../workers/watched-thread.ts";
import type { Reward, RewardInput, RewardScore } from "./reward.ts";
import type { RewardThreadHost, RewardThreadSource } from "./thread-host.ts";

interface RewardThreadOptions {
  /** What is known of the reward without building it. */
  readonly reward: Pick<Reward, "name" | "cost">;
  readonly source: RewardThreadSource;
  /** How long the thread may say nothing before it is ended. */
  readonly silentMs: number;
  /** Told of what the reward throws outside of its calls. */
  readonly report?: ((text: string) => void) | undefined;
}

/** Starts the thread. */
export function runRewardInThread({ reward, source, silentMs, report }: RewardThreadOptions): Reward {
  const { name, cost } = reward;
  const start = () =>
    new WatchedThread<RewardThreadHost>({
      name: `Reward "${name}"`,
      module: new URL("reward-worker", import.meta.url),
      source,
      needsTypeScript: source.module.endsWith(".ts"),
      timeoutMs: silentMs,
      report,
      codes: { lost: "REWARD_CRASHED", failed: "REWARD_FAILED" },
    });
  let thread = start();
  let isClosed = false;
  let numAsked = 0;

  async function ask(input: RewardInput, signal: AbortSignal): Promise<RewardScore> {
    const number = ++numAsked;
    for (;;) {
      if (!thread.isRunning && !isClosed) thread = start();
      try {
        return await thread.ask((host) => host.score(number, input, signal), signal);
      } catch (error) {
        if (isClosed || signal.aborted || !wasLostElsewhere(error, "REWARD_CRASHED", number)) throw error;
      }
    }
  }

  return {
    name,
    // It waits for a thread now, which may have to be replaced first.
    cost: cost === "instant" ? "cpu" : cost,
    score: ask,
    close: async () => {
      isClosed = true;
      await thread.close();
    },
  };
}

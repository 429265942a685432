/** A reward that lives in a thread, as its owner calls it. */
import type { RewardInput, RewardScore } from "./reward.ts";

/** The code that a thread builds its reward with. */
export interface RewardThreadSource {
  /** The address of a module. */
  readonly module: string;
  /** Name of a function in that module that takes the options and returns a `Reward`. */
  readonly exportName: string;
  readonly options: unknown;
}

export interface RewardThreadHost {
  /** @param number above 0, of the caller's choice: names the score in which the thread is lost */
  score(number: number, input: RewardInput, signal: AbortSignal): Promise<RewardScore>;
  ping(): Promise<void>;
  listen(report: (message: string) => void): Promise<never>;
  close(): Promise<void>;
}

/** The episodes of a run, as metrics: those that ended in a rollout, and the last hundred. */

import type { Metrics } from "../../flow/metrics.ts";
import type { ControlRollout } from "../control-rollout.ts";

/** What reports of control are commonly averaged over. */
const WINDOW = 100;

/** Keeps the returns of the last episodes. */
export class EpisodeLog {
  #returns: readonly number[];

  /** @param returns of the last episodes of a run that goes on: those of `returns` */
  constructor(returns: readonly number[] = []) {
    this.#returns = returns;
  }

  /** The returns of the last episodes, the newest last. */
  get returns(): readonly number[] {
    return this.#returns;
  }

  /** Takes the episodes of a rollout in. Means are left out where there is nothing to take them over. */
  add({ episodes, numTicks, numEnvs }: ControlRollout): Metrics {
    const returns = episodes.map((episode) => episode.return);
    this.#returns = [...this.#returns, ...returns].slice(-WINDOW);
    return {
      "rollout/env_steps": numTicks * numEnvs,
      "episode/count": episodes.length,
      ...(episodes.length > 0 && {
        "reward/mean": meanOf(returns),
        "episode/return": meanOf(returns),
        "episode/length": meanOf(episodes.map(({ length }) => length)),
      }),
      ...(this.#returns.length > 0 && { "episode/return_100": meanOf(this.#returns) }),
    };
  }
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

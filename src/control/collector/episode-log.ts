/** Metrics of the episodes that ended in a rollout, and of the last hundred of a run. */

import type { Metrics } from "../../flow/metrics.ts";
import type { ControlRollout } from "../control-rollout.ts";

/** Returns in control are commonly reported as the mean over this many episodes. */
const WINDOW = 100;

/** Keeps the returns of the last episodes. */
export class EpisodeLog {
  #returns: readonly number[];

  /** @param returns the saved `returns` of a run that is resumed */
  constructor(returns: readonly number[] = []) {
    this.#returns = returns;
  }

  /** The returns of the last episodes, the newest last. */
  get returns(): readonly number[] {
    return this.#returns;
  }

  /** Adds the episodes of a rollout. A mean over no episodes is left out. */
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

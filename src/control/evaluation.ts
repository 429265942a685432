/** The return of a policy over whole episodes: the deterministic policy, if the actor takes the most likely actions. */

import { RerollError } from "../errors/reroll-error.ts";
import type { Metrics } from "../flow/metrics.ts";
import { type ControlActor, ControlCollector } from "./collector/collector.ts";
import type { ControlEpisode } from "./control-rollout.ts";
import type { VecEnv } from "./envs/vec-env.ts";

/** The number of episodes, and the seed of their starts. */
export interface ControlEvaluationOptions {
  readonly episodes: number;
  readonly seed: number;
  /** Ticks per episode after which an environment is taken to be endless. Default 100,000. */
  readonly maxTicks?: number;
}

/**
 * Plays the same number of episodes in every copy, starting with its first. Taking the episodes that end first over all copies
 * would favor short ones.
 */
export function evaluateControl(env: VecEnv, actor: ControlActor, options: ControlEvaluationOptions): Metrics {
  const { episodes: numEpisodes, seed, maxTicks = 100_000 } = options;
  const collector = new ControlCollector(env, actor, { seed });
  const quota = Math.ceil(numEpisodes / env.numEnvs);
  const played = Array.from({ length: env.numEnvs }, (): ControlEpisode[] => []);
  const isShort = () => played.some((episodes) => episodes.length < quota);
  for (let ticks = 0; isShort(); ticks++) {
    if (ticks >= maxTicks * quota) throw endless(ticks);
    for (const episode of collector.collect(1, 0).episodes) played[episode.env]!.push(episode);
  }
  const counted = played.flatMap((episodes) => episodes.slice(0, quota)).slice(0, numEpisodes);
  const returns = counted.map((episode) => episode.return);
  return {
    "reward/mean": meanOf(returns),
    "reward/min": Math.min(...returns),
    "reward/max": Math.max(...returns),
    "episode/length": meanOf(counted.map(({ length }) => length)),
    "episode/count": counted.length,
  };
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function endless(ticks: number): RerollError {
  return new RerollError(
    "ENDLESS_EPISODE",
    `An episode of the evaluation had not ended after ${ticks} ticks. Give the environment a limit of steps.`,
    { ticks },
  );
}

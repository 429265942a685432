/** Validation: the policy measured on prompts that it is never trained on, the same ones every time. */
import { buildSource } from "../data/build-source.ts";
import type { DataChoice } from "../data/data-options.ts";
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { RunEpisode } from "../rollout/episode.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import { RolloutScheduler } from "../rollout/rollout-scheduler.ts";
import { defaultData, type RunWorld } from "./build-rollout.ts";
import type { RunConfig } from "./run-config.ts";

interface ValidationResult {
  /** The metrics of a rollout, named `validation/...`. */
  readonly metrics: Metrics;
  /** The rollout that was measured; absent for control runs, which have no token trajectories. */
  readonly rollout?: Rollout;
}

export type Validate = (version: number, signal: AbortSignal) => Promise<ValidationResult>;

/** `groupSize` is the number of trajectories per prompt. */
export function buildValidation(
  config: RunConfig,
  world: RunWorld,
  runEpisode: RunEpisode,
  clock: Clock,
  groupSize = 1,
): Validate {
  const { seed, rollout, validation } = config;
  const choice = (validation?.data ?? defaultData(config, "validation")) as DataChoice;
  return async (version, signal) => {
    // A new source each time: it starts at the first prompt again.
    const { source } = await buildSource(
      { ...choice, ...("shuffle" in choice || choice.type === "env" ? { shuffle: false } : {}) } as DataChoice,
      { seed, envs: world.prompts },
      "validation.data",
    );
    const scheduler = new RolloutScheduler({
      runEpisode,
      sources: [{ share: 1, source }],
      options: { groupSize, maxInFlight: rollout.maxInFlight },
      seed,
      clock,
    });
    try {
      scheduler.setProgress(version);
      const result = await scheduler.take(validation?.prompts ?? 128, signal);
      return { rollout: result, metrics: renamed(result.metrics) };
    } finally {
      await scheduler.close();
    }
  };
}

function renamed(metrics: Metrics): Metrics {
  return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`validation/${name}`, value]));
}

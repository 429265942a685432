/** What a rollout scheduler is built from. */

import type { Clock } from "../flow/clock.ts";
import type { SampleEvent } from "../flow/sample-event.ts";
import type { Admission } from "./admission.ts";
import type { RunEpisode } from "./episode.ts";
import type { GroupFilter } from "./group-filter.ts";
import type { DomainSource } from "./prompt-queue.ts";

export interface SchedulerParts {
  readonly runEpisode: RunEpisode;
  /** Plays one greedy trajectory for each group, whose reward is a baseline. Default: groups have none. */
  readonly runGreedy?: RunEpisode;
  /** One source, or one per domain with its share of the delivered groups. */
  readonly sources: readonly DomainSource[];
  readonly options: SchedulerOptions;
  readonly seed: number;
  readonly clock: Clock;
  /** Told of every prompt that is left out because it does not fit the context, or could not be made. */
  readonly onDroppedPrompt?: (reason: string) => void;
  /** Called whenever a sample enters a stage. */
  readonly onEvent?: (event: SampleEvent) => void;
}

export interface SchedulerOptions {
  /** Trajectories sampled for each prompt. */
  readonly groupSize: number;
  /** Maximum number of samples that run at the same time. */
  readonly maxInFlight: number;
  /** Samples started beyond `groupSize`; the first to end well are taken. Default 0. */
  readonly extraSamples?: number;
  /** Failed samples of a group that are replaced before it is given up. Default: `groupSize`. */
  readonly maxFailures?: number;
  /** Default: as many groups as are asked for. */
  readonly admission?: Admission;
  /** Default: every group is kept. */
  readonly filter?: GroupFilter;
  /** Number of filtered groups per requested one, since the last delivery, after which `take` gives up. Default 10. */
  readonly maxFilteredFactor?: number;
  /**
   * What happens to running groups once enough are ready: ended and started again from their prompts in the next take (the
   * default), held where they are and continued under newer weights (partial rollouts), or left running (async).
   */
  readonly rest?: "restart" | "hold" | "continue";
  /**
   * Maximum staleness of a token, in training steps. A group that exceeds it is ended, whether it is running or ready,
   * and its prompt starts again. Default: no limit.
   */
  readonly maxStaleness?: number;
}

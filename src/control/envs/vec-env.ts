/** What a vector environment is: N copies of a control task that step together, in flat arrays that are reused. */

export interface VecEnv {
  readonly numEnvs: number;
  readonly observationSize: number;
  readonly actions: ActionSpace;
  /** Names for parts of the observation, where it has parts that not every network may read. */
  readonly observationGroups?: Readonly<Record<string, ObservationSlice>>;
  /** Names of the reward's parts, where a critic should value each on its own. `rewardParts_NG` then holds them. */
  readonly rewardGroups?: readonly string[];
  /** Starts all environments. The same seed gives the same episodes. */
  reset(seed: number): VecObservation;
  /**
   * Steps all environments. One that ended is reset at once: `observations_NO` then holds its first observation, and
   * `finalObservations_NO` the last one of the episode that ended.
   *
   * @param actions_NA one action per environment: the index for discrete spaces, `size` numbers for continuous ones
   */
  step(actions_NA: Float32Array): VecStep;
  /**
   * Everything that the next steps depend on, as plain data that JSON holds without loss. Environments that have it, and
   * `restore`, can go on after a resume where they stood; others are started again.
   */
  save?(): unknown;
  /** Puts environments with the same settings back to where `save` was called. Needs no reset before it. */
  restore?(saved: unknown): void;
  close?(): Promise<void>;
}

export type ActionSpace =
  | { readonly kind: "discrete"; readonly count: number }
  | { readonly kind: "continuous"; readonly size: number; readonly low: number; readonly high: number };

/** A run of numbers within an observation. */
export interface ObservationSlice {
  readonly start: number;
  readonly size: number;
}

export interface VecObservation {
  readonly observations_NO: Float32Array;
}

/** All arrays belong to the environment and are overwritten by the next step. */
export interface VecStep extends VecObservation {
  readonly rewards_N: Float32Array;
  /** The parts of the reward, which sum to it. There where `rewardGroups` is. */
  readonly rewardParts_NG?: Float32Array;
  /** 1 where the task ended. */
  readonly terminated_N: Uint8Array;
  /** 1 where a limit ended it. */
  readonly truncated_N: Uint8Array;
  /** Read where either is 1. */
  readonly finalObservations_NO: Float32Array;
}

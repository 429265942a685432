/** A vector environment: N copies of a control task that step together, in flat arrays that are reused. */

export interface VecEnv {
  readonly numEnvs: number;
  readonly observationSize: number;
  readonly actions: ActionSpace;
  /** Named parts of the observation, for algorithms in which not every network may read all of it. */
  readonly observationGroups?: Readonly<Record<string, ObservationSlice>>;
  /** Names of the parts of the reward. A critic then values each part on its own; `rewardParts_NG` holds them. */
  readonly rewardGroups?: readonly string[];
  /** Starts all environments. The same seed gives the same episodes. */
  reset(seed: number): VecObservation;
  /**
   * Steps all environments. One whose episode ended is reset at once: `observations_NO` then holds the first observation of its
   * next episode, and `finalObservations_NO` the last one of the episode that ended.
   *
   * @param actions_NA one action per environment: the index for discrete spaces, `size` numbers for continuous ones
   */
  step(actions_NA: Float32Array): VecStep;
  /**
   * Everything that the next steps depend on, as plain data that survives JSON without loss. Environments with `save` and
   * `restore` continue exactly where they were when a run is resumed; others start new episodes.
   */
  save?(): unknown;
  /** Puts environments with the same settings into a saved state. Needs no reset before it. */
  restore?(saved: unknown): void;
  close?(): Promise<void>;
}

export type ActionSpace =
  | { readonly kind: "discrete"; readonly count: number }
  | { readonly kind: "continuous"; readonly size: number; readonly low: number; readonly high: number };

/** Adjacent numbers within an observation. */
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
  /** The parts of the reward, which sum to it. Present if `rewardGroups` is. */
  readonly rewardParts_NG?: Float32Array;
  /** 1 where the task ended. */
  readonly terminated_N: Uint8Array;
  /** 1 where a limit ended the episode. */
  readonly truncated_N: Uint8Array;
  /** Last observations of episodes; read only where one of the two is 1. */
  readonly finalObservations_NO: Float32Array;
}

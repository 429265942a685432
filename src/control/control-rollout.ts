/**
 * What a frozen policy did in N vector environments over T ticks: dense arrays in host memory, never changed once they are built.
 *
 * Index [t, n] of an array with rows of size S starts at (t * N + n) * S.
 */

export interface ControlRollout {
  readonly numTicks: number;
  readonly numEnvs: number;
  /** The weights that chose every action. */
  readonly version: number;
  readonly observationSize: number;
  readonly actionSize: number;
  /** As the environment gave them, before any normalization: what the action of the tick was chosen on. */
  readonly observations_TNO: Float32Array;
  /** As sampled, before the environment clips them. The index for discrete actions. */
  readonly actions_TNA: Float32Array;
  /** Of the action under the policy that sampled it, summed over its numbers. */
  readonly samplerLogprobs_TN: Float32Array;
  /** G parts of the reward; one where the environment names none. */
  readonly rewards_TNG: Float32Array;
  readonly numRewardGroups: number;
  readonly terminated_TN: Uint8Array;
  readonly truncated_TN: Uint8Array;
  /** Ticks since the episode began: 0 at its first observation. Recurrent policies start afresh there. */
  readonly episodeTicks_TN: Uint32Array;
  /** The last observation of every truncated episode, in the order of their places t * N + n. */
  readonly finalPlaces: readonly number[];
  readonly finalObservations_FO: Float32Array;
  /** What the environments show after the last tick, and how far their episodes are. */
  readonly lastObservations_NO: Float32Array;
  readonly lastEpisodeTicks_N: Uint32Array;
  /** What a recurrent policy carried into the first tick; empty for one without memory. */
  readonly carry_NC: Float32Array;
  /** The episodes that ended within these ticks. */
  readonly episodes: readonly ControlEpisode[];
}

/** An episode that ended. */
export interface ControlEpisode {
  readonly env: number;
  /** The sum of its rewards. */
  readonly return: number;
  readonly length: number;
}

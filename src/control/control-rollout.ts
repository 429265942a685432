/**
 * T ticks of a frozen policy in N environments: dense arrays in host memory that are never changed once they are built.
 *
 * Entry [t, n] of an array with rows of size S starts at (t * N + n) * S.
 */

export interface ControlRollout {
  readonly numTicks: number;
  readonly numEnvs: number;
  /** Version of the weights that chose every action. */
  readonly version: number;
  readonly observationSize: number;
  readonly actionSize: number;
  /** The observations that actions were chosen on, as the environment gave them, before any normalization. */
  readonly observations_TNO: Float32Array;
  /** Actions as sampled, before the environment clips them. A discrete action is its index. */
  readonly actions_TNA: Float32Array;
  /** Log-probability of each action under the policy that sampled it, summed over the numbers of the action. */
  readonly samplerLogprobs_TN: Float32Array;
  /** The G parts of the reward; one part if the environment names no groups. */
  readonly rewards_TNG: Float32Array;
  readonly numRewardGroups: number;
  readonly terminated_TN: Uint8Array;
  readonly truncated_TN: Uint8Array;
  /** Ticks since the episode began. At 0, its first observation, a recurrent policy forgets the episode before. */
  readonly episodeTicks_TN: Uint32Array;
  /** Places t * N + n at which an episode was truncated, in order; `finalObservations_FO` has its last observation. */
  readonly finalPlaces: readonly number[];
  readonly finalObservations_FO: Float32Array;
  /** The observations after the last tick, and the ticks since their episodes began. */
  readonly lastObservations_NO: Float32Array;
  readonly lastEpisodeTicks_N: Uint32Array;
  /** The memory of a recurrent policy before the first tick; empty for a policy without memory. */
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

/** GiGPO: the advantage of the episode plus that of the step among steps that started from the same state. */
import type { GroupKey } from "../../flow/token-batch.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectRange, expectRows } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { inTurnOrder } from "./join-rows.ts";
import { normalizeGroups } from "./normalize-groups.ts";

/** One row per step (turn) of an episode; rows may be in any order. */
export interface GigpoInputs {
  /** The reward of each step. */
  readonly rewards_B: Tensor;
  /** The prompt or initial state that several trajectories share. */
  readonly groupOf: readonly number[];
  /** The trajectory of each step, unique within its group. */
  readonly trajectoryOf: readonly number[];
  /** The position of each step in its trajectory; any increasing numbers. */
  readonly turnOf: readonly number[];
  /** The state that each step started from, as a hash or text. Equal states of one group are compared. */
  readonly stateOf: readonly GroupKey[];
}

export interface GigpoOptions {
  /** Discount per step of the return that steps are compared by. Default 0.95, the paper's. */
  readonly gamma?: number;
  /** Weight of the episode's advantage. Default 1. */
  readonly episodeWeight?: number;
  /** Weight of the step's advantage, omega in the paper. Default 1. */
  readonly stepWeight?: number;
  /** F_norm in the paper: 1 (the default) or the deviation of the group. */
  readonly scale?: "none" | "group-std";
  /** Added to the deviation. Default 1e-6. */
  readonly epsilon?: number;
  /**
   * What the mean of a group is taken over: trajectories, as in the paper (the default), or the steps of all of them,
   * where a long trajectory counts more (the default of verl-agent).
   */
  readonly episodeMean?: "trajectories" | "steps";
}

/** The sum and its two parts, already weighted, for the tokens of each step. */
export interface GigpoAdvantages {
  readonly advantages_B: Tensor;
  readonly episode_B: Tensor;
  readonly step_B: Tensor;
}

/**
 * A = w_e (R - mean_group R) / F + w_s (G_t - mean_state G) / F
 *
 * R is the sum of rewards of the trajectory, G_t = sum_k gamma^k r_{t+k}. The second mean is over all steps of the
 * group that started from the same state. A group of one trajectory, or a state met only once, has nothing to compare
 * with and gives 0.
 *
 * Source: GiGPO, arXiv:2505.10978, eq. 3 and eq. 6 to 8.
 */
export function gigpo(
  inputs: GigpoInputs,
  {
    gamma = 0.95,
    episodeWeight = 1,
    stepWeight = 1,
    scale = "none",
    epsilon = 1e-6,
    episodeMean = "trajectories",
  }: GigpoOptions = {},
): GigpoAdvantages {
  expectSteps(inputs);
  expectRange("gamma", gamma, 0, 1);
  const { rewards_B, groupOf, trajectoryOf, turnOf, stateOf } = inputs;
  const rewards = Array.from(readFinite("rewards_B", rewards_B));
  const trajectories = groupRows(groupOf.map((group, row) => pairKey(group, trajectoryOf[row]!))).map((rows) =>
    inTurnOrder(rows, turnOf),
  );
  const normalize = (values: readonly number[], keys: readonly GroupKey[]) =>
    normalizeGroups(values, groupRows(keys), {
      mean: "group",
      deviation: scale === "none" ? "none" : "group",
      epsilon,
    });

  const totals = trajectories.map((rows) => rows.reduce((sum, row) => sum + rewards[row]!, 0));
  const groupOfTrajectory = trajectories.map(([first]) => groupOf[first!]!);
  const episodes =
    episodeMean === "trajectories"
      ? spread(normalize(totals, groupOfTrajectory), trajectories)
      : normalize(spread(totals, trajectories), groupOf);
  const steps = normalize(
    stepReturns(rewards, trajectories, gamma),
    stateOf.map((state, row) => pairKey(groupOf[row]!, state)),
  );
  const episode = episodes.map((value) => episodeWeight * value);
  const step = steps.map((value) => stepWeight * value);
  return {
    advantages_B: writeRows(
      episode.map((value, row) => value + step[row]!),
      rewards_B,
    ),
    episode_B: writeRows(episode, rewards_B),
    step_B: writeRows(step, rewards_B),
  };
}

type Trajectories = readonly (readonly number[])[];

function expectSteps({ rewards_B, groupOf, trajectoryOf, turnOf, stateOf }: GigpoInputs): void {
  expectRows({ rewards_B });
  for (const [name, keys] of Object.entries({ groupOf, trajectoryOf, turnOf, stateOf })) {
    expectKeys(name, keys, rewards_B.size(0));
  }
}

/** The value of each trajectory, repeated for each of its rows. */
function spread(values: readonly number[], trajectories: Trajectories): number[] {
  const result: number[] = [];
  trajectories.forEach((rows, i) => {
    for (const row of rows) result[row] = values[i]!;
  });
  return result;
}

function stepReturns(rewards: readonly number[], trajectories: Trajectories, gamma: number): number[] {
  const returns = new Array<number>(rewards.length);
  for (const rows of trajectories) {
    let next = 0;
    for (const row of rows.toReversed()) {
      next = rewards[row]! + gamma * next;
      returns[row] = next;
    }
  }
  return returns;
}

// JSON keeps keys apart that a plain join would merge, and the number 1 apart from the text "1".
function pairKey(group: number, key: GroupKey): string {
  return JSON.stringify([group, key]);
}

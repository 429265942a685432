/** Generalized advantage estimation over the ticks of vector environments that restart by themselves. */

import { floatsLike, readBools, readFinite, writeLike } from "../../algorithms/advantages/host-values.ts";
import { expectAlike, expectMask, expectRange } from "../../algorithms/expect-batch.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../../torch/tensor.ts";

interface ControlGaeInputs {
  /** The reward for the action at each tick. */
  readonly rewards_TN: Tensor;
  /** The critic's value of the observation at each tick, before the action. */
  readonly values_TN: Tensor;
  /** True where the task ended: no reward can follow. */
  readonly terminated_TN: Tensor;
  /** True where a limit cut the episode off: it would have continued from its last observation. */
  readonly truncated_TN: Tensor;
  /** The critic's value of the observation after the last tick. */
  readonly lastValues_N: Tensor;
  /**
   * The critic's value of the last observation of an episode, before the restart. Read where `truncated_TN` is true, and
   * required if it is true anywhere, because the value of the next tick belongs to another episode.
   */
  readonly finalValues_TN?: Tensor;
}

interface ControlAdvantages {
  readonly advantages_TN: Tensor;
  /** The critic's targets: advantage plus value. */
  readonly returns_TN: Tensor;
}

/**
 * delta_t = r_t + gamma V' - V_t,  A_t = delta_t + gamma lambda A_{t+1} (0 after an end),  R_t = A_t + V_t
 *
 * V' is 0 where terminated, the value of the final observation where truncated, and the value of the next tick
 * elsewhere. A tick that is both counts as terminated.
 *
 * Source: GAE, arXiv:1506.02438, eq. 16; time limits as in arXiv:1712.00378.
 */
export function controlGae(
  { rewards_TN, values_TN, terminated_TN, truncated_TN, lastValues_N, finalValues_TN }: ControlGaeInputs,
  { gamma = 0.99, lambda = 0.95 }: { readonly gamma?: number; readonly lambda?: number } = {},
): ControlAdvantages {
  expectTicks({ rewards_TN, values_TN, terminated_TN, truncated_TN, lastValues_N });
  if (finalValues_TN !== undefined) expectAlike({ rewards_TN, finalValues_TN });
  expectRange("gamma", gamma, 0, 1);
  expectRange("lambda", lambda, 0, 1);
  const [T, N] = [rewards_TN.size(0), rewards_TN.size(1)];
  const rewards = readFinite("rewards_TN", rewards_TN);
  const values = readFinite("values_TN", values_TN);
  const terminated = readBools(terminated_TN);
  const truncated = readBools(truncated_TN);
  const lastValues = readFinite("lastValues_N", lastValues_N);
  const finalValues = finalValues_TN && readFinite("finalValues_TN", finalValues_TN, truncated);
  if (finalValues === undefined) expectNothingToBootstrap(terminated, truncated, N);

  const advantages = floatsLike(values_TN);
  const returns = floatsLike(values_TN);
  for (let env = 0; env < N; env++) {
    let nextValue = lastValues[env]!;
    let nextAdvantage = 0;
    for (let at = (T - 1) * N + env; at >= 0; at -= N) {
      if (terminated[at] !== 0) [nextValue, nextAdvantage] = [0, 0];
      else if (truncated[at] !== 0) [nextValue, nextAdvantage] = [finalValues![at]!, 0];
      nextAdvantage = rewards[at]! + gamma * nextValue - values[at]! + gamma * lambda * nextAdvantage;
      nextValue = values[at]!;
      advantages[at] = nextAdvantage;
      returns[at] = nextAdvantage + values[at]!;
    }
  }
  return {
    advantages_TN: writeLike(advantages, values_TN),
    returns_TN: writeLike(returns, values_TN),
  };
}

type Ticks = Pick<ControlGaeInputs, "rewards_TN" | "values_TN" | "terminated_TN" | "truncated_TN" | "lastValues_N">;

function expectTicks({ rewards_TN, values_TN, terminated_TN, truncated_TN, lastValues_N }: Ticks): void {
  expectAlike({ rewards_TN, values_TN });
  expectMask({ terminated_TN, truncated_TN });
  const wanted = rewards_TN.shape.join();
  const shapes = { terminated_TN, truncated_TN, lastValues_N };
  const isRight =
    rewards_TN.shape.length === 2 &&
    terminated_TN.shape.join() === wanted &&
    truncated_TN.shape.join() === wanted &&
    lastValues_N.shape.join() === `${rewards_TN.shape[1]}`;
  if (isRight) return;
  const got = Object.entries(shapes).map(([name, values]) => `${name} [${values.shape.join(", ")}]`);
  throw new RerollError(
    "SHAPE_MISMATCH",
    `rewards_TN has shape [${rewards_TN.shape.join(", ")}], with ${got.join(", ")}. Ticks and environments must be the ` +
      "same in all: [T, N], and [N] for lastValues_N.",
  );
}

function expectNothingToBootstrap(terminated: Uint8Array, truncated: Uint8Array, N: number): void {
  const at = truncated.findIndex((value, i) => value !== 0 && terminated[i] === 0);
  if (at === -1) return;
  throw new RerollError(
    "MISSING_ARGUMENT",
    `environment ${at % N} was truncated at tick ${Math.floor(at / N)}, but finalValues_TN is missing. It must hold the ` +
      "critic's value of the last observation before the restart.",
    { tick: Math.floor(at / N), env: at % N },
  );
}

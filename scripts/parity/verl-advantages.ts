/**
 * Compares the advantage estimators with what verl computed.
 *
 * In: a folder with verl's advantages.json. Out: the largest relative error per estimator and result. Compared are the
 * loss tokens, all that a loss reads; elsewhere verl leaves what its loops carried, and ours must be exactly 0.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { gae } from "../../src/algorithms/advantages/gae.ts";
import { gpg } from "../../src/algorithms/advantages/gpg.ts";
import { groupRelative } from "../../src/algorithms/advantages/group-relative.ts";
import { leaveOneOut } from "../../src/algorithms/advantages/leave-one-out.ts";
import { optimalBaseline } from "../../src/algorithms/advantages/opo.ts";
import { passAtK } from "../../src/algorithms/advantages/pass-at-k.ts";
import { reinforcePlusPlus, reinforcePlusPlusBaseline } from "../../src/algorithms/advantages/reinforce-plus-plus.ts";
import { remax } from "../../src/algorithms/advantages/remax.ts";
import { sumRewards, toTokens } from "../../src/algorithms/advantages/token-values.ts";
import { whiten } from "../../src/algorithms/whiten.ts";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

const matrix = z.array(z.array(z.number()));
const caseSchema = z.object({
  name: z.string(),
  options: z.object({
    gamma: z.number().default(1),
    lam: z.number().default(1),
    norm_by_std: z.boolean().default(true),
    baselines: z.array(z.number()).default([]),
  }),
  rewards: matrix,
  mask: matrix,
  values: matrix,
  group: z.array(z.number()),
  advantages: matrix,
  returns: matrix,
});
type Case = z.infer<typeof caseSchema>;

/** The largest error of each estimator's advantages and returns, by `<verl's name>.<result>`. */
export function checkVerlAdvantages(folder: string): Record<string, number> {
  const cases = z.array(caseSchema).parse(JSON.parse(readFileSync(join(folder, "advantages.json"), "utf8")));
  const errors: Record<string, number> = {};
  for (const golden of cases) {
    const { advantages, returns } = tensorScope(() => {
      const ours = compute(golden);
      return { advantages: ours.advantages_BT.toArray(), returns: ours.returns_BT.toArray() };
    });
    note(errors, `${golden.name}.advantages`, errorOf(advantages, golden.advantages, golden.mask));
    note(errors, `${golden.name}.returns`, errorOf(returns, golden.returns, golden.mask));
  }
  return errors;
}

function compute({ name, options, group, ...golden }: Case): { advantages_BT: Tensor; returns_BT: Tensor } {
  const rewards_BT = tensor(golden.rewards, { dtype: "float64" });
  const values_BT = tensor(golden.values, { dtype: "float64" });
  const lossMask_BT = tensor(golden.mask, { dtype: "bool" });
  const rewards_B = sumRewards(rewards_BT);
  const gamma = options.gamma;
  // What verl does where we chose otherwise.
  const singleton = "raw";
  const rewardsOutsideMask = "drop";
  const scale = options.norm_by_std ? "group-std" : "none";
  // verl returns the advantages of outcome estimators a second time as their returns.
  const twice = (advantages_BT: Tensor) => ({ advantages_BT, returns_BT: advantages_BT });
  const onTokens = (advantages_B: Tensor) => twice(toTokens(advantages_B, lossMask_BT));
  switch (name) {
    case "gae": {
      const options_ = { gamma, lambda: options.lam, rewardsOutsideMask } as const;
      const { advantages_BT, returns_BT } = gae({ rewards_BT, values_BT, lossMask_BT }, options_);
      return { advantages_BT: whiten(advantages_BT, lossMask_BT), returns_BT };
    }
    case "grpo":
      return onTokens(groupRelative(rewards_B, group, { scale, singleton }));
    case "grpo_passk":
      return onTokens(passAtK(rewards_B, group, { scaleByStd: options.norm_by_std }));
    case "reinforce_plus_plus":
      return reinforcePlusPlus(rewards_BT, lossMask_BT, { gamma, rewardsOutsideMask });
    case "reinforce_plus_plus_baseline":
      return twice(reinforcePlusPlusBaseline(rewards_B, lossMask_BT, group, { singleton }));
    case "rloo":
      return onTokens(leaveOneOut(rewards_B, group, { singleton }));
    case "opo":
      return onTokens(optimalBaseline(rewards_B, lossMask_BT, group, { singleton }));
    case "remax": {
      const greedyRewards_B = tensor(options.baselines, { dtype: "float64" });
      return remax(rewards_BT, greedyRewards_B, lossMask_BT, { rewardsOutsideMask });
    }
    case "gpg":
      return onTokens(gpg(rewards_B, group, { countBy: "rewards", singleton }));
    default:
      throw new RerollError(
        "INVALID_ARGUMENT",
        `advantages.json has a case "${name}", which no estimator here answers to.`,
      );
  }
}

function errorOf(got: readonly number[], expected: readonly number[][], mask: readonly number[][]): number {
  const isLossToken = mask.flat();
  const errors = expected.flat().map((value, i) => {
    if (isLossToken[i] === 0) return got[i] === 0 ? 0 : Number.POSITIVE_INFINITY;
    return Math.abs(got[i]! - value) / Math.max(Math.abs(value), SMALLEST);
  });
  return errors.reduce((worst, error) => Math.max(worst, error), 0);
}

function note(errors: Record<string, number>, kind: string, error: number): void {
  errors[kind] = Math.max(errors[kind] ?? 0, Number.isNaN(error) ? Number.POSITIVE_INFINITY : error);
}

// Values of order 1 that cancel leave rounding errors where the exact answer is 0.
const SMALLEST = 1e-3;

/**
 * Turns a loss per token into the loss of a batch: the one place that decides what a loss is divided by.
 *
 * Denominators are those of the whole batch. They are counted once, before it is cut into microbatches or spread over
 * ranks, and passed in; the losses of the parts then add up to the loss of the whole, and so do their gradients.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Denominators } from "../flow/batch-statistics.ts";
import { tensor } from "../torch/create.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { expectBatch, expectGroups, expectPositive } from "./expect-batch.ts";
import { COUNT_EPSILON, maskedSum, zeroOutside } from "./masked.ts";

/**
 * How token losses l_bt become one number. N sequences (rows), M trajectories and P prompts have at least one loss token;
 * n_b counts those of row b, n_i those of all rows of trajectory i, n_p those of all rows of prompt p, n all of them.
 * Where every trajectory is one row, `trajectory-mean` and `seq-mean` are the same.
 *
 * | type | loss | source |
 * |---|---|---|
 * | token-mean | sum l / n | DAPO, section 3.3 |
 * | token-sum | sum l | |
 * | trajectory-mean-token-mean | sum_i (sum_{b in i, t} l / n_i) / M | GRPO, eq. 3, whose sample is the whole trajectory |
 * | trajectory-mean-token-sum | sum l / M | |
 * | trajectory-mean-token-sum-norm | sum l / (M lengthDivisor) | Dr. GRPO: lengthDivisor is the largest response length allowed |
 * | seq-mean-token-mean | sum_b (sum_t l / (n_b + 1e-8)) / N | GiGPO, whose sample is a step; a fork counts on its own |
 * | seq-mean-token-sum | sum l / N | |
 * | seq-mean-token-sum-norm | sum l / (N lengthDivisor) | |
 * | prompt-mean | sum_p (sum_{b in p, t} l / n_p) / P | token-mean inside each prompt |
 */
export type Reduction =
  | { readonly type: "token-mean" }
  | { readonly type: "token-sum" }
  | { readonly type: "trajectory-mean-token-mean" }
  | { readonly type: "trajectory-mean-token-sum" }
  | {
      readonly type: "trajectory-mean-token-sum-norm";
      /** A constant of the run, as for `seq-mean-token-sum-norm`. */
      readonly lengthDivisor: number;
    }
  | { readonly type: "seq-mean-token-mean" }
  | { readonly type: "seq-mean-token-sum" }
  | {
      readonly type: "seq-mean-token-sum-norm";
      /** A constant of the run. verl's default, the padded length, would change with the cut into microbatches. */
      readonly lengthDivisor: number;
    }
  | { readonly type: "prompt-mean" };

/** Some rows: which of their tokens count, and which group (prompt) and trajectory each row belongs to. */
export interface LossRows {
  readonly lossMask_BT: Tensor;
  /** A whole number per row, the same over all microbatches and ranks of a batch. */
  readonly groupOf: readonly number[];
  /** The trajectory of each row, numbered in the same way. Default: every row is a trajectory. */
  readonly trajectoryOf?: readonly number[];
  /**
   * The loss tokens of each row as the denominators counted them, if some have been rejected since. Default: counted
   * from `lossMask_BT`.
   */
  readonly counted_B?: Tensor;
  /** The weight of each row; the denominators count every row once. Default 1. */
  readonly rowWeights_B?: Tensor;
}

/**
 * Counts a whole batch. Reads the row lengths back from the device: call it once per batch. Without `trajectoryOf` every
 * row is a trajectory.
 */
export function globalDenominators(
  lossMask_BT: Tensor,
  groupOf: readonly number[],
  trajectoryOf?: readonly number[],
): Denominators {
  expectBatch(lossMask_BT);
  const lengths = tensorScope(() => lossMask_BT.sum(1).toArray());
  expectGroups("groupOf", groupOf, lengths.length);
  if (trajectoryOf !== undefined) expectGroups("trajectoryOf", trajectoryOf, lengths.length);
  const tokensPerTrajectory = sumByKey(trajectoryOf ?? lengths.map((_, row) => row), lengths);
  const tokensPerPrompt = sumByKey(groupOf, lengths);
  return {
    numTokens: lengths.reduce((sum, length) => sum + length, 0),
    numSequences: countFilled(lengths),
    numTrajectories: countFilled([...tokensPerTrajectory.values()]),
    numPrompts: countFilled([...tokensPerPrompt.values()]),
    tokensPerTrajectory,
    tokensPerPrompt,
  };
}

/**
 * This part's share of the batch loss, a tensor without dimensions: summed over all parts it is the batch loss. Values
 * outside the mask are not read. A batch without any loss token has loss 0 and gradient 0.
 */
export function reduceLoss(plain_BT: Tensor, rows: LossRows, reduction: Reduction, denominators: Denominators): Tensor {
  const { lossMask_BT, groupOf, rowWeights_B } = rows;
  expectBatch(lossMask_BT, { loss_BT: plain_BT }, { ...(rowWeights_B && { rowWeights_B }) });
  const loss_BT = rowWeights_B ? plain_BT.mul(rowWeights_B.unsqueeze(1)) : plain_BT;
  switch (reduction.type) {
    case "token-mean":
      return maskedSum(loss_BT, lossMask_BT).div(atLeastOne(denominators.numTokens));
    case "token-sum":
      return maskedSum(loss_BT, lossMask_BT);
    case "trajectory-mean-token-mean":
      return ofTrajectories(rowMeans(loss_BT, lossMask_BT), rows, denominators)
        .sum()
        .div(atLeastOne(denominators.numTrajectories));
    case "trajectory-mean-token-sum":
      return maskedSum(loss_BT, lossMask_BT).div(atLeastOne(denominators.numTrajectories));
    case "trajectory-mean-token-sum-norm": {
      expectPositive("lengthDivisor", reduction.lengthDivisor);
      return maskedSum(loss_BT, lossMask_BT).div(atLeastOne(denominators.numTrajectories) * reduction.lengthDivisor);
    }
    case "seq-mean-token-mean":
      return rowMeans(loss_BT, lossMask_BT).sum().div(atLeastOne(denominators.numSequences));
    case "seq-mean-token-sum":
      return maskedSum(loss_BT, lossMask_BT).div(atLeastOne(denominators.numSequences));
    case "seq-mean-token-sum-norm": {
      expectPositive("lengthDivisor", reduction.lengthDivisor);
      return maskedSum(loss_BT, lossMask_BT).div(atLeastOne(denominators.numSequences) * reduction.lengthDivisor);
    }
    case "prompt-mean": {
      expectGroups("groupOf", groupOf, lossMask_BT.size(0));
      const { dtype, device } = loss_BT;
      const perToken_B = tensor(promptWeights(groupOf, denominators), { dtype, device });
      return maskedSum(loss_BT, lossMask_BT, 1).mul(perToken_B).sum();
    }
  }
}

/**
 * The mean of a loss per row over the trajectories of the whole batch; this part's share of it. The rows of a
 * trajectory are weighted by their loss tokens; rows without any do not count. For losses that have no value per token.
 */
export function reduceSequenceLoss(plain_B: Tensor, rows: LossRows, denominators: Denominators): Tensor {
  const { lossMask_BT, rowWeights_B } = rows;
  expectBatch(lossMask_BT, {}, { loss_B: plain_B, ...(rowWeights_B && { rowWeights_B }) });
  const loss_B = zeroOutside(rowWeights_B ? plain_B.mul(rowWeights_B) : plain_B, lossMask_BT.sum(1).gt(0));
  return ofTrajectories(loss_B, rows, denominators).sum().div(atLeastOne(denominators.numTrajectories));
}

function rowMeans(loss_BT: Tensor, lossMask_BT: Tensor): Tensor {
  return maskedSum(loss_BT, lossMask_BT, 1).div(lossMask_BT.sum(1).to(loss_BT.dtype).add(COUNT_EPSILON));
}

/** Each row's part in the mean of its trajectory: its own mean times its share of the trajectory's tokens. */
function ofTrajectories(means_B: Tensor, rows: LossRows, { tokensPerTrajectory }: Denominators): Tensor {
  const { lossMask_BT, trajectoryOf, counted_B = lossMask_BT.sum(1) } = rows;
  if (trajectoryOf === undefined) return means_B;
  expectGroups("trajectoryOf", trajectoryOf, lossMask_BT.size(0));
  const counts = countsOf("trajectoryOf", trajectoryOf, tokensPerTrajectory);
  const { dtype, device } = means_B;
  return means_B.mul(counted_B.to(dtype).div(tensor(counts, { dtype, device })));
}

/** Per row, the weight of one of its tokens in prompt-mean. */
function promptWeights(groupOf: readonly number[], { numPrompts, tokensPerPrompt }: Denominators): number[] {
  return countsOf("groupOf", groupOf, tokensPerPrompt).map((numTokens) => 1 / (numTokens * atLeastOne(numPrompts)));
}

/** Per row, the number of loss tokens in the group or trajectory it belongs to; at least 1. */
function countsOf(name: string, keyOf: readonly number[], tokensPer: ReadonlyMap<number, number>): number[] {
  return keyOf.map((key, row) => {
    const numTokens = tokensPer.get(key);
    if (numTokens !== undefined) return atLeastOne(numTokens);
    throw new RerollError(
      "INVALID_ARGUMENT",
      `${name}[${row}] is ${key}, a number that the denominators do not know. They must be counted over the whole ` +
        "batch, with the same numbers: see globalDenominators.",
      { row, [name]: key },
    );
  });
}

function sumByKey(keyOf: readonly number[], values: readonly number[]): Map<number, number> {
  const sums = new Map<number, number>();
  for (const [row, key] of keyOf.entries()) sums.set(key, (sums.get(key) ?? 0) + values[row]!);
  return sums;
}

function countFilled(counts: readonly number[]): number {
  return counts.filter((count) => count > 0).length;
}

// With nothing to divide by there is nothing to sum: the loss is 0, and must not become 0 / 0.
function atLeastOne(count: number): number {
  return Math.max(count, 1);
}

/**
 * From a loss per token to the loss of a batch: the one place that decides what a loss is divided by.
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
 * How token losses l_bt become one number. N sequences and P prompts have at least one loss token; n_b counts those of
 * row b, n_p those of all rows of prompt p, n all of them.
 *
 * | type | loss | source |
 * |---|---|---|
 * | token-mean | sum l / n | DAPO, section 3.3 |
 * | token-sum | sum l | |
 * | seq-mean-token-mean | sum_b (sum_t l / (n_b + 1e-8)) / N | GRPO, eq. 3 |
 * | seq-mean-token-sum | sum l / N | |
 * | seq-mean-token-sum-norm | sum l / (N lengthDivisor) | Dr. GRPO: lengthDivisor is the largest response length allowed |
 * | prompt-mean | sum_p (sum_{b in p, t} l / n_p) / P | token-mean inside of each prompt |
 */
export type Reduction =
  | { readonly type: "token-mean" }
  | { readonly type: "token-sum" }
  | { readonly type: "seq-mean-token-mean" }
  | { readonly type: "seq-mean-token-sum" }
  | {
      readonly type: "seq-mean-token-sum-norm";
      /** A constant of the run. verl's default, the padded length, would change with the cut into microbatches. */
      readonly lengthDivisor: number;
    }
  | { readonly type: "prompt-mean" };

/** Which of the tokens of some rows count, and which group (prompt) each row belongs to. */
export interface LossRows {
  readonly lossMask_BT: Tensor;
  /** A whole number per row, the same over all microbatches and ranks of a batch. */
  readonly groupOf: readonly number[];
  /** What each row counts for; the denominators count every row once. Default 1. */
  readonly rowWeights_B?: Tensor;
}

/** Counts a whole batch. Reads the row lengths back from the device: call it once per batch. */
export function globalDenominators(lossMask_BT: Tensor, groupOf: readonly number[]): Denominators {
  expectBatch(lossMask_BT);
  const lengths = tensorScope(() => lossMask_BT.sum(1).toArray());
  expectGroups("groupOf", groupOf, lengths.length);
  return {
    numTokens: sumOf(lengths),
    numSequences: lengths.filter((length) => length > 0).length,
    ...countPrompts(lengths.map((length, row) => [groupOf[row]!, length])),
  };
}

/** The denominators of a batch whose rows were counted in parts, one per rank. A group may lie on several ranks. */
export function mergeDenominators(parts: readonly Denominators[]): Denominators {
  return {
    numTokens: sumOf(parts.map((part) => part.numTokens)),
    numSequences: sumOf(parts.map((part) => part.numSequences)),
    ...countPrompts(parts.flatMap((part) => [...part.tokensPerPrompt])),
  };
}

/**
 * This part's share of the batch loss, a tensor without dimensions: summed over all parts it is the batch loss. Values
 * outside of the mask are not read. A batch without any loss token has loss 0 and gradient 0.
 */
export function reduceLoss(
  plain_BT: Tensor,
  { lossMask_BT, groupOf, rowWeights_B }: LossRows,
  reduction: Reduction,
  denominators: Denominators,
): Tensor {
  expectBatch(lossMask_BT, { loss_BT: plain_BT }, { ...(rowWeights_B && { rowWeights_B }) });
  const loss_BT = rowWeights_B ? plain_BT.mul(rowWeights_B.unsqueeze(1)) : plain_BT;
  switch (reduction.type) {
    case "token-mean":
      return maskedSum(loss_BT, lossMask_BT).div(atLeastOne(denominators.numTokens));
    case "token-sum":
      return maskedSum(loss_BT, lossMask_BT);
    case "seq-mean-token-mean": {
      const lengths_B = lossMask_BT.sum(1).to(loss_BT.dtype).add(COUNT_EPSILON);
      return maskedSum(loss_BT, lossMask_BT, 1).div(lengths_B).sum().div(atLeastOne(denominators.numSequences));
    }
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
 * The mean of a loss per row over the sequences of the whole batch; this part's share of it. Rows without a loss token
 * do not count. For losses that have no value per token.
 */
export function reduceSequenceLoss(loss_B: Tensor, lossMask_BT: Tensor, denominators: Denominators): Tensor {
  expectBatch(lossMask_BT, {}, { loss_B });
  const hasTokens_B = lossMask_BT.sum(1).gt(0);
  return zeroOutside(loss_B, hasTokens_B).sum().div(atLeastOne(denominators.numSequences));
}

function countPrompts(
  counts: readonly (readonly [group: number, numTokens: number])[],
): Pick<Denominators, "numPrompts" | "tokensPerPrompt"> {
  const tokensPerPrompt = new Map<number, number>();
  for (const [group, numTokens] of counts) {
    tokensPerPrompt.set(group, (tokensPerPrompt.get(group) ?? 0) + numTokens);
  }
  return { numPrompts: [...tokensPerPrompt.values()].filter((count) => count > 0).length, tokensPerPrompt };
}

/** Per row, what one token of it weighs in prompt-mean. */
function promptWeights(groupOf: readonly number[], { numPrompts, tokensPerPrompt }: Denominators): number[] {
  return groupOf.map((group, row) => {
    const numTokens = tokensPerPrompt.get(group);
    if (numTokens !== undefined) return 1 / (atLeastOne(numTokens) * atLeastOne(numPrompts));
    throw new RerollError(
      "INVALID_ARGUMENT",
      `groupOf[${row}] is ${group}, a group that the denominators do not know. They must be counted over the whole ` +
        "batch, with the same group numbers: see globalDenominators.",
      { row, group },
    );
  });
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

// Nothing to divide by means nothing to sum: the loss is 0, and must not become 0 / 0.
function atLeastOne(count: number): number {
  return Math.max(count, 1);
}

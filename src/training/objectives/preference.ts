/**
 * Objectives that learn from pairs: the chosen reply becomes likelier, the rejected one less likely.
 *
 * An example has two sequences, the chosen one first; its loss tokens are those of the reply. The loss of a batch is the mean over pairs.
 */
import { z } from "zod";
import { crossEntropyLoss } from "../../algorithms/losses/cross-entropy.ts";
import type { SequenceLoss } from "../../algorithms/losses/loss-output.ts";
import { type DpoOptions, dpoLoss } from "../../algorithms/losses/preference/dpo.ts";
import { orpoLoss } from "../../algorithms/losses/preference/orpo.ts";
import { sequenceLogprobs } from "../../algorithms/losses/preference/sequence-logprobs.ts";
import { simpoLoss } from "../../algorithms/losses/preference/simpo.ts";
import type { Objective, ObjectivePass } from "./objective.ts";
import { bySide, exampleNumbers, replyLogprobs, sequenceTokens } from "./reply-logprobs.ts";

const beta = z.number().gt(0);

/** Direct preference optimization. */
export const dpoOptions = z.strictObject({
  type: z.literal("dpo"),
  beta: beta
    .default(0.1)
    .describe("Strength with which the model is held to the reference. With lengthNormalized, 1 to 10 is usual."),
  labelSmoothing: z
    .number()
    .min(0)
    .lt(0.5)
    .default(0)
    .describe("Probability that a label is wrong (conservative DPO)."),
  lengthNormalized: z
    .boolean()
    .default(false)
    .describe(
      "Compare mean log-probs per token instead of their sums, so that long replies weigh no more than short ones.",
    ),
});

/** Identity preference optimization. */
export const ipoOptions = z.strictObject({
  type: z.literal("ipo"),
  beta: beta
    .default(0.1)
    .describe("The lead per token that is aimed at is 1 / (2 beta); larger values hold to the reference."),
});

/** Odds-ratio preference optimization: supervised learning and preference in one, without a reference. */
export const orpoOptions = z.strictObject({
  type: z.literal("orpo"),
  beta: beta.default(0.1).describe("Weight of the odds ratio beside the likelihood of the chosen replies."),
});

/** Simple preference optimization: rewards are mean log-probs per token, without a reference. */
export const simpoOptions = z.strictObject({
  type: z.literal("simpo"),
  beta: beta.default(2).describe("Factor from the mean log-prob per token of a reply to its reward."),
  margin: z.number().min(0).default(1).describe("Reward by which the chosen reply should lead."),
});

type PairLoss = (pass: ObjectivePass) => SequenceLoss;

export function dpo({ beta, labelSmoothing, lengthNormalized }: z.output<typeof dpoOptions>): Objective {
  return againstReference({ type: "sigmoid", beta, labelSmoothing }, lengthNormalized);
}

export function ipo({ beta }: z.output<typeof ipoOptions>): Objective {
  return againstReference({ type: "ipo", beta }, true);
}

export function simpo({ beta, margin }: z.output<typeof simpoOptions>): Objective {
  return fromPairs((pass) => {
    const [chosenLogprobs_B, rejectedLogprobs_B] = bySide(replyLogprobs(pass, { isPerToken: true }));
    return simpoLoss({ chosenLogprobs_B, rejectedLogprobs_B }, { beta, margin });
  });
}

/** The likelihood of the chosen replies is a mean over their tokens in the whole batch, the odds ratio one over its pairs. */
export function orpo({ beta }: z.output<typeof orpoOptions>): Objective {
  return {
    loss: (pass, { numExamples, numFirstTokens }) => {
      const tokens = sequenceTokens(pass);
      const perToken_B = sequenceLogprobs(tokens.logprobs_BT, tokens.lossMask_BT, { isPerToken: true });
      const [chosenLogprobs_B, rejectedLogprobs_B] = bySide(perToken_B);
      const odds = orpoLoss({ chosenLogprobs_B, rejectedLogprobs_B }, { beta });
      const { loss_BT, metrics } = crossEntropyLoss({
        policyLogprobs_BT: tokens.logprobs_BT.slice(0, 0, undefined, 2),
        lossMask_BT: tokens.lossMask_BT.slice(0, 0, undefined, 2),
      });
      const nll = loss_BT.sum().div(numFirstTokens);
      const { "supervised/nll": chosenNll } = metrics;
      return {
        loss: odds.loss_B.sum().div(numExamples).add(nll),
        metrics: { ...odds.metrics, ...(chosenNll && { "preference/chosen_nll": chosenNll }) },
      };
    },
  };
}

/** Reference log-probs are measured once, before the first step. */
function againstReference(options: DpoOptions, isPerToken: boolean): Objective {
  const logprobs = (pass: ObjectivePass) => bySide(replyLogprobs(pass, { isPerToken }));
  return {
    measure: (pass) => {
      const [referenceChosen, referenceRejected] = logprobs(pass);
      return { referenceChosen, referenceRejected };
    },
    ...fromPairs((pass) => {
      const [chosen, rejected] = logprobs(pass);
      const inputs = {
        chosen: { policyLogprobs_B: chosen, referenceLogprobs_B: exampleNumbers(pass, "referenceChosen") },
        rejected: { policyLogprobs_B: rejected, referenceLogprobs_B: exampleNumbers(pass, "referenceRejected") },
      };
      return dpoLoss(inputs, options);
    }),
  };
}

function fromPairs(pairLoss: PairLoss): Objective {
  return {
    loss: (pass, { numExamples }) => {
      const { loss_B, metrics } = pairLoss(pass);
      return { loss: loss_B.sum().div(numExamples), metrics };
    },
  };
}

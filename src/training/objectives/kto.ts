import { z } from "zod";
import { meanOver } from "../../algorithms/losses/loss-metrics.ts";
import { ktoLoss } from "../../algorithms/losses/preference/kto.ts";
import type { Objective, ObjectivePass } from "./objective.ts";
import { bySide, exampleNumbers, replyLogprobs } from "./reply-logprobs.ts";

/** Kahneman-Tversky optimization: replies that are wanted or not, each on its own. */
export const ktoOptions = z.strictObject({
  type: z.literal("kto"),
  beta: z.number().gt(0).default(0.1).describe("Strength with which the model is held to the reference."),
  desirableWeight: z
    .number()
    .min(0)
    .default(1)
    .describe("Weight of wanted replies. Raise it where they are rarer than unwanted ones."),
  undesirableWeight: z.number().min(0).default(1).describe("Weight of unwanted replies."),
});

/**
 * An example has two sequences: a prompt with its reply, and the same prompt with a reply to another one, from which the distance to
 * the reference is estimated. The loss of a batch is the mean over its replies.
 */
export function kto({ beta, desirableWeight, undesirableWeight }: z.output<typeof ktoOptions>): Objective {
  const logprobs = (pass: ObjectivePass) => replyLogprobs(pass, { isPerToken: false });
  return {
    numLossSequences: 1,
    measure: (pass) => {
      const [referenceOwn, referenceMismatched] = bySide(logprobs(pass));
      return { referenceOwn, referenceMismatched };
    },
    batchMeans: (pass) => {
      const gain_E = logprobs(pass).sub(exampleNumbers(pass, "referenceMismatched"));
      return { mismatchedGain: meanOver(gain_E.isFinite(), gain_E) };
    },
    loss: (pass, { numExamples, means }) => {
      const { loss_B, metrics } = ktoLoss(
        {
          policyLogprobs_B: logprobs(pass),
          referenceLogprobs_B: exampleNumbers(pass, "referenceOwn"),
          isDesirable_B: exampleNumbers(pass, "isDesirable").gt(0),
          mismatchedGain: means.mismatchedGain ?? Number.NaN,
        },
        { beta, desirableWeight, undesirableWeight },
      );
      return { loss: loss_B.sum().div(numExamples), metrics };
    },
    derive: marginOf,
  };
}

/** Wanted and unwanted replies are not paired, so the margin is between their means. */
function marginOf({
  "preference/chosen_reward": wanted,
  "preference/rejected_reward": unwanted,
}: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return wanted === undefined || unwanted === undefined ? {} : { "preference/margin": wanted - unwanted };
}

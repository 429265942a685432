import { z } from "zod";
import { weightedCrossEntropy } from "../../models/causal-lm/token-logprobs.ts";
import { full } from "../../torch/create.ts";
import type { Objective } from "./objective.ts";

/** The options of supervised learning. */
export const supervisedOptions = z.strictObject({
  type: z.literal("supervised"),
  train: z
    .enum(["assistant", "last", "all"])
    .default("assistant")
    .describe(
      "Tokens that the loss counts: those of all replies of the assistant, those of its last reply, or every token of the row.",
    ),
  chat: z
    .boolean()
    .default(true)
    .describe(
      "Put a prompt and a completion that are plain text into the chat template. false: one after the other, as they are.",
    ),
});

/** The mean of -log p over all loss tokens of a batch: the model learns to write them. */
export function supervised(): Objective {
  return {
    loss: ({ packed, hidden_SD, model }, { numTokens }) => {
      const hidden_ND = hidden_SD.indexSelect(0, packed.before_N);
      const weights_N = full([packed.targets_N.size(0)], 1 / numTokens, { device: hidden_ND.device });
      const { loss } = weightedCrossEntropy(hidden_ND, model.head, packed.targets_N, weights_N, {
        softCap: model.softCap,
      });
      return { loss, metrics: {} };
    },
    derive: ({ loss }) => (loss === undefined ? {} : { "supervised/perplexity": Math.exp(loss) }),
  };
}

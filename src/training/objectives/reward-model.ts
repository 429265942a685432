import { z } from "zod";
import { bradleyTerryLoss } from "../../algorithms/losses/preference/bradley-terry.ts";
import { scoreRegressionLoss } from "../../algorithms/losses/preference/score-regression.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { saveSequenceClassifier } from "../../models/causal-lm/save-causal-lm.ts";
import { ValueHead } from "../../models/causal-lm/value-head.ts";
import { noGrad } from "../../torch/autograd.ts";
import { Generator } from "../../torch/random.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ModelExtension, Objective, ObjectivePass } from "./objective.ts";
import { bySide, exampleNumbers } from "./reply-logprobs.ts";

/** A reward model: the decoder with a head that scores conversations. */
export const rewardModelOptions = z.strictObject({
  type: z.literal("reward-model"),
  loss: z
    .enum(["bradley-terry", "regression"])
    .default("bradley-terry")
    .describe(
      "What is learned. bradley-terry: from pairs, which reply is better. regression: the scores that rows have.",
    ),
  useMargins: z
    .boolean()
    .default(false)
    .describe("Ask the chosen reply to lead by the margin of its row. For bradley-terry."),
  centering: z
    .number()
    .min(0)
    .default(0)
    .describe(
      "Weight of the squared sum of a pair's scores, which keeps them around 0; 0.01 is usual. For bradley-terry.",
    ),
});

/**
 * The score of a sequence is a linear map of its last token's state. Bradley-Terry compares the two sequences of an example, the chosen
 * one first; regression learns the `score` of an example with one.
 */
export function rewardModel(options: z.output<typeof rewardModelOptions>, model: CausalLm, head: ValueHead): Objective {
  // Classifiers on Hugging Face have none: it is not saved, so scores must not count on it.
  head.bias.requiresGrad = false;
  noGrad(() => head.bias.zero_());
  const scores = ({ hidden_SD, packed }: ObjectivePass) => head.forward(hidden_SD.indexSelect(0, packed.last_B));
  return {
    extension: scoringHead(model, head),
    loss: (pass, { numExamples }) => {
      const { loss_B, metrics } =
        options.loss === "regression" ? ratingLoss(pass, scores(pass)) : comparisonLoss(pass, scores(pass), options);
      return { loss: loss_B.sum().div(numExamples), metrics };
    },
  };
}

function ratingLoss(pass: ObjectivePass, scores_B: Tensor) {
  return scoreRegressionLoss({ scores_B, targets_B: exampleNumbers(pass, "score") });
}

function comparisonLoss(
  pass: ObjectivePass,
  scores_B: Tensor,
  { useMargins, centering }: Pick<z.output<typeof rewardModelOptions>, "useMargins" | "centering">,
) {
  const [chosenScores_B, rejectedScores_B] = bySide(scores_B);
  const margins_B = useMargins ? exampleNumbers(pass, "margin") : undefined;
  return bradleyTerryLoss({ chosenScores_B, rejectedScores_B, ...(margins_B && { margins_B }) }, { centering });
}

/** A head for a model that has none, drawn with a standard deviation of 1 / sqrt(width + 1): Stiennon et al. 2020 (arXiv:2009.01325). */
export function newScoringHead(model: CausalLm, seed: number): ValueHead {
  const { width } = model.config;
  const generator = new Generator(seed);
  const initial = { std: 1 / Math.sqrt(width + 1), generator };
  const head = new ValueHead(width, { device: model.embedding.device, initial });
  generator.dispose();
  return head;
}

function scoringHead(model: CausalLm, head: ValueHead): ModelExtension {
  return {
    parameters: new Map([["score.weight", head.weight]]),
    saveModel: (folder, files, sink) => saveSequenceClassifier(model, head, folder, { files, sink }),
    dispose: () => head.dispose(),
  };
}

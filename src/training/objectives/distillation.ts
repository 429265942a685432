import { z } from "zod";
import { meanOver } from "../../algorithms/losses/loss-metrics.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import { tokenDivergences } from "../../models/causal-lm/token-divergences.ts";
import { noGrad } from "../../torch/autograd.ts";
import { hiddenBefore } from "../measure-rows.ts";
import type { Objective } from "./objective.ts";
import { supervisedOptions } from "./supervised.ts";

/** The options of distillation on given replies. */
export const distillationOptions = z.strictObject({
  type: z.literal("distillation"),
  teacher: z
    .string()
    .min(1)
    .describe("Folder of the teacher, in Hugging Face layout. Its tokenizer must be the model's."),
  divergence: z
    .enum(["forward", "reverse", "jsd"])
    .default("forward")
    .describe(
      "Divergence of whole next-token distributions: KL(teacher || policy), KL(policy || teacher), or the Jensen-Shannon divergence.",
    ),
  temperature: z
    .number()
    .positive()
    .default(1)
    .describe(
      "Logits of both are divided by this. The loss is multiplied by its square, which keeps the size of the gradient.",
    ),
  train: supervisedOptions.shape.train,
  chat: supervisedOptions.shape.chat,
});

type DistillationChoice = z.output<typeof distillationOptions>;

/**
 * The mean divergence from a frozen teacher over all loss tokens of a batch: the model learns what the teacher would say at each place
 * of given replies, and not only what stands there.
 */
export function distillation(
  { teacher, divergence, temperature }: DistillationChoice,
  { embedding }: Pick<CausalLm, "embedding">,
): Objective {
  const { device, dtype } = embedding;
  const wise = loadCausalLm(teacher, { device, ...(dtype === "bfloat16" || dtype === "float32" ? { dtype } : {}) });
  wise.setTrainable(false);
  const name = divergence === "jsd" ? "distillation/jsd" : `distillation/${divergence}_kl`;
  return {
    loss: ({ packed, hidden_SD, model }, { numTokens }) => {
      const scoring = ({ head: head_VD, softCap }: CausalLm) => ({ head_VD, softCap });
      const mine = { hidden_SD: hidden_SD.indexSelect(0, packed.before_N), ...scoring(model) };
      const taught = noGrad(() => ({ hidden_SD: hiddenBefore(wise, packed), ...scoring(wise) }));
      const values_N = tokenDivergences(mine, taught, { divergence, temperature });
      const measured_N = values_N.detach();
      return {
        loss: values_N.sum().mul(temperature ** 2 / numTokens),
        metrics: { [name]: meanOver(measured_N.isFinite(), measured_N) },
      };
    },
  };
}

/** The scores of conversations by a reward model, in one forward pass. */
import { packedLayout } from "../../models/causal-lm/token-layout.ts";
import { noGrad } from "../../torch/autograd.ts";
import { cat, tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import { steadyProducts } from "../../torch/steady-products.ts";
import type { RewardModel } from "./load-reward-model.ts";

/**
 * The head's value of the last token of each conversation. They are packed end to end, so none is padded, and products are steady: which of them
 * come together is a matter of time.
 */
export function scoreConversations(
  model: Pick<RewardModel, "decoder" | "head">,
  conversations: readonly Int32Array[],
): number[] {
  return steadyProducts("any", () => scored(model, conversations));
}

function scored(
  { decoder, head }: Pick<RewardModel, "decoder" | "head">,
  conversations: readonly Int32Array[],
): number[] {
  const { device } = decoder.embedding;
  return tensorScope(() =>
    noGrad(() => {
      const lengths = conversations.map((ids) => ids.length);
      const ids_S = cat(conversations.map((ids) => tensor(ids, [ids.length], { device })));
      const hidden_SD = decoder.forward(ids_S, packedLayout(lengths, device));
      const lasts: number[] = [];
      for (const length of lengths) lasts.push((lasts.at(-1) ?? -1) + length);
      const last_B = tensor(Int32Array.from(lasts), [lasts.length], { device });
      return head.forward(hidden_SD.indexSelect(0, last_B)).toArray() as number[];
    }),
  );
}

import { sequenceLogprobs } from "../../algorithms/losses/preference/sequence-logprobs.ts";
import { tokenLogprobs } from "../../models/causal-lm/token-logprobs.ts";
import { onesLike, tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { toGrid } from "../token-rows.ts";
import type { ObjectivePass } from "./objective.ts";

/** Log-probs of the loss tokens of some sequences: [sequence, token], and which cells hold one. */
interface SequenceTokens {
  readonly logprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

export function sequenceTokens({ packed, hidden_SD, model }: ObjectivePass): SequenceTokens {
  const hidden_ND = hidden_SD.indexSelect(0, packed.before_N);
  const { logprobs_S: logprobs_N } = tokenLogprobs(hidden_ND, model.head, packed.targets_N, {
    softCap: model.softCap,
  });
  return { logprobs_BT: toGrid(logprobs_N, packed), lossMask_BT: toGrid(onesLike(logprobs_N.detach()), packed).ne(0) };
}

/** Log-probs of the replies in all sequences: the sum over a reply's tokens, or their mean. */
export function replyLogprobs(pass: ObjectivePass, { isPerToken }: { readonly isPerToken: boolean }): Tensor {
  const { logprobs_BT, lossMask_BT } = sequenceTokens(pass);
  return sequenceLogprobs(logprobs_BT, lossMask_BT, { isPerToken });
}

/** Values of sequences that come in twos, as those of the first and those of the second. */
export function bySide(values_B: Tensor): readonly [first_E: Tensor, second_E: Tensor] {
  const values_E2 = values_B.view(values_B.size(0) / 2, 2);
  return [values_E2.select(1, 0), values_E2.select(1, 1)];
}

/** A number of every example, as a tensor beside what was measured. */
export function exampleNumbers({ examples, hidden_SD }: ObjectivePass, name: string): Tensor {
  const values = examples.map(({ numbers }) => numbers?.[name] ?? Number.NaN);
  return tensor(values, { dtype: "float32", device: hidden_SD.device });
}

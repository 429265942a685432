/** The scores of all tokens of the vocabulary, of which the ranks of a split engine have a part each, on the first of them. */
import type { CausalLm } from "../../../models/causal-lm/causal-lm.ts";
import { cat, empty } from "../../../torch/create.ts";
import { rangeOf } from "../../../torch/distributed/collective.ts";
import type { Tensor } from "../../../torch/tensor.ts";

/** [S, V], as `CausalLm.logits`; null on every rank but the first. Call it on all of them. */
export function wholeScores(model: CausalLm, hidden_SD: Tensor): Tensor | null {
  const { tensor: ranks, expert } = model.spread;
  if (ranks.count === 1) return expert.index === 0 ? model.logits(hidden_SD) : null;
  const own = model.logits(hidden_SD);
  const nothing = empty([0], { dtype: own.dtype, device: own.device });
  const isFirst = ranks.index === 0;
  const sent = Array.from({ length: ranks.count }, (_, rank) => (rank === 0 && !isFirst ? own : nothing));
  const shapes = sent.map((_, rank) =>
    isFirst ? [own.size(0), rangeOf(model.config.vocabSize, rank, ranks.count).length] : [0],
  );
  const [, ...others] = ranks.swap(sent, shapes);
  return isFirst ? cat([own, ...others], 1) : null;
}

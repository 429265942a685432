/** What a model says of chosen tokens, however it is spread over ranks. */
import { rangeOf } from "../../torch/distributed/collective.ts";
import { allRows, ownRows } from "../../torch/distributed/collective-functions.ts";
import { bytesOf } from "../../torch/dtype.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { chunkFor } from "./score-chunks.ts";
import { splitTokenLogprobs } from "./split-token-logprobs.ts";
import { type Foresight, type TokenLogprobs, tokenLogprobs } from "./token-logprobs.ts";

interface ModelLogprobOptions {
  readonly temperature: number;
  /** Scores that count, from the first. Default: all. */
  readonly numScores?: number;
  /** See TokenLogprobOptions; where ranks share the tokens or the vocabulary, gradients are awaited all the same. */
  readonly foresee?: Foresight | undefined;
}

/** As `tokenLogprobs`. Of several ranks that have all hidden states, each takes its share of the tokens, and all get those of the others. */
export function modelLogprobs(
  model: CausalLm,
  hidden_ND: Tensor,
  targets_N: Tensor,
  { temperature, numScores = Infinity, foresee }: ModelLogprobOptions,
): TokenLogprobs {
  const { tensor, context } = model.spread;
  const { start, length } = rangeOf(model.config.vocabSize, tensor.index, tensor.count);
  const numRows = Math.min(length, numScores - start);
  const head = numRows < length ? model.head.narrow(0, 0, numRows) : model.head;
  const N = hidden_ND.size(0);
  const [hidden, targets] = [ownRows(context, hidden_ND), ownRows(context, targets_N)];
  const whole = { temperature, softCap: model.softCap, ...(foresee && context.count === 1 && { foresee }) };
  const { logprobs_S, entropy_S } =
    tensor.count === 1
      ? tokenLogprobs(hidden, head, targets, whole)
      : splitTokenLogprobs(hidden, head, targets, { temperature, ranks: tensor, start, chunkTokens: chunkOf(model) });
  return { logprobs_S: allRows(context, logprobs_S, N), entropy_S: allRows(context, entropy_S, N) };
}

/** Equal on all ranks, whose parts of the vocabulary may not be. The scores are float32. */
function chunkOf({ head, config, spread }: CausalLm): number {
  const numScores = Math.ceil(config.vocabSize / spread.tensor.count);
  return chunkFor({ device: head.device, bytesPerToken: bytesOf("float32") * numScores });
}

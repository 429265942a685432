/** What a model says about the tokens of a prompt: one forward pass, beside the cache. */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { modelLogprobs } from "../../models/causal-lm/model-logprobs.ts";
import { packedLayout } from "../../models/causal-lm/token-layout.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";

/** The log-prob of each token after those before it, at temperature 1; NaN for the first. */
export function promptLogprobs(model: CausalLm, promptIds: Int32Array): Float32Array {
  const { length } = promptIds;
  const logprobs = new Float32Array(length).fill(Number.NaN);
  if (length < 2) return logprobs;
  return noGrad(() =>
    tensorScope(() => {
      const { device } = model.embedding;
      const ids_S = tensor(promptIds, [length], { dtype: "int64", device });
      const hidden_SD = model.forward(ids_S, packedLayout([length], device));
      const before_SD = hidden_SD.narrow(0, 0, length - 1);
      const { logprobs_S } = modelLogprobs(model, before_SD, ids_S.narrow(0, 1, length - 1), { temperature: 1 });
      logprobs.set(logprobs_S.toFloat32Array(), 1);
      return logprobs;
    }),
  );
}

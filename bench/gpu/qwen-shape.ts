/** The shape of Qwen2.5-0.5B, with random weights: speed does not depend on their values. */
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import type { TensorOptions } from "../../src/torch/create.ts";
import { op } from "../../src/torch/operator.ts";

/** Its config.json, which the Hugging Face side of a benchmark reads too. */
export const qwenShape = {
  model_type: "qwen2",
  vocab_size: 151936,
  hidden_size: 896,
  intermediate_size: 4864,
  num_hidden_layers: 24,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  max_position_embeddings: 32768,
  rms_norm_eps: 1e-6,
  rope_theta: 1_000_000,
  tie_word_embeddings: true,
  initializer_range: 0.02,
} as const;

/** A model of that shape on a device, with weights drawn there: drawing half a billion numbers on the CPU takes longer. */
export function createQwenShape(place: Required<TensorOptions>): CausalLm {
  const model = new CausalLm(parseConfig(qwenShape, "qwenShape"), place);
  noGrad(() => {
    for (const parameter of model.parameters()) {
      if (parameter.shape.length >= 2) normal_(parameter, 0, qwenShape.initializer_range);
    }
  });
  return model;
}

const normal_ = op("aten::normal_");

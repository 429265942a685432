/** The shapes of Qwen2.5, and of SmolLM2-135M, with random weights: speed does not depend on their values. */
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import type { TensorOptions } from "../../src/torch/create.ts";
import { op } from "../../src/torch/operator.ts";

/** The config.json of Qwen2.5-0.5B, which the Hugging Face side of a benchmark reads too. */
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

/** The shapes by their number of parameters. */
export const shapes = {
  "135M": {
    ...qwenShape,
    model_type: "llama",
    vocab_size: 49152,
    hidden_size: 576,
    intermediate_size: 1536,
    num_hidden_layers: 30,
    num_attention_heads: 9,
    num_key_value_heads: 3,
  },
  "0.5B": qwenShape,
  "1.5B": {
    ...qwenShape,
    hidden_size: 1536,
    intermediate_size: 8960,
    num_hidden_layers: 28,
    num_attention_heads: 12,
  },
  "7B": {
    ...qwenShape,
    vocab_size: 152064,
    hidden_size: 3584,
    intermediate_size: 18944,
    num_hidden_layers: 28,
    num_attention_heads: 28,
    num_key_value_heads: 4,
    tie_word_embeddings: false,
  },
} as const;

export function createQwenShape(place: Required<TensorOptions>): CausalLm {
  return createShape(qwenShape, place);
}

/** A model of a shape on a device, with weights drawn there: drawing half a billion numbers on the CPU takes longer. */
export function createShape(shape: (typeof shapes)[keyof typeof shapes], place: Required<TensorOptions>): CausalLm {
  const model = new CausalLm(parseConfig(shape, "shape"), place);
  noGrad(() => {
    for (const [name, parameter] of model.namedParameters()) {
      if (parameter.shape.length >= 2) normal_(parameter, 0, shape.initializer_range);
      else fill_(parameter, /norm\.weight$/i.test(name) ? 1 : 0);
    }
  });
  return model;
}

const normal_ = op("aten::normal_");
const fill_ = op("aten::fill_.Scalar");

/** Models of a few thousand random parameters, one per family, for tests. */

import { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { type CausalLmConfig, parseConfig } from "../models/causal-lm/config.ts";
import type { DecoderFeatures } from "../models/causal-lm/decoder-features.ts";
import { type Family, families, familyNames } from "../models/causal-lm/families/table.ts";
import { noGrad } from "../torch/autograd.ts";
import { randn, type TensorOptions } from "../torch/create.ts";
import { Generator } from "../torch/random.ts";
import { tensorScope } from "../torch/scope.ts";

/** Changes to a tiny config: other sizes, other features. */
interface TinyChanges extends Partial<Omit<CausalLmConfig, "features">> {
  readonly features?: Partial<DecoderFeatures>;
}

/**
 * A config in which no two sizes are equal by chance, with every feature that the family's config.json can turn on but
 * sliding windows. Every second family ties its embeddings, so that a test over all families sees both.
 */
export function tinyConfig(family: Family, { features, ...changes }: TinyChanges = {}): CausalLmConfig {
  const config = parseConfig(
    {
      model_type: family,
      vocab_size: 29,
      hidden_size: 16,
      num_hidden_layers: 2,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      head_dim: 6,
      intermediate_size: 20,
      max_position_embeddings: 64,
      tie_word_embeddings: familyNames.indexOf(family) % 2 === 1,
      attention_bias: true,
      mlp_bias: true,
      sliding_window: null,
      num_experts: 5,
      num_experts_per_tok: 2,
      moe_intermediate_size: 8,
      norm_topk_prob: true,
      num_local_experts: 5,
      shared_expert_intermediate_size: 7,
      ...("partial_rotary_factor" in families[family].keys.shape ? { partial_rotary_factor: 2 / 3 } : {}),
      no_rope_layers: [1, 0],
      ...(family === "gemma2" ? { attn_logit_softcapping: 3, final_logit_softcapping: 4 } : {}),
      linear_num_key_heads: 2,
      linear_num_value_heads: 4,
      linear_key_head_dim: 5,
      linear_value_head_dim: 3,
      linear_conv_kernel_dim: 3,
      full_attention_interval: 2,
      bos_token_id: 1,
      eos_token_id: 2,
    },
    "the tiny config",
  );
  return { ...config, ...changes, features: { ...config.features, ...features } };
}

/** A model in which no weight has its usual initial value, so that a test notices a weight that is left out. */
export function tinyModel(config: CausalLmConfig, place: TensorOptions & { readonly seed?: number } = {}): CausalLm {
  const { seed = 1, ...options } = place;
  const generator = new Generator(seed);
  const model = new CausalLm(config, options);
  noGrad(() => {
    for (const [path, parameter] of model.namedParameters()) {
      const isNorm = parameter.shape.length === 1 && !path.endsWith("bias");
      tensorScope(() =>
        parameter.copy_(
          randn(parameter.shape, { generator })
            .mul(0.3)
            .add(isNorm ? 1 : 0),
        ),
      );
    }
  });
  generator.dispose();
  return model;
}

/** Qwen3-Next: three layers of linear attention to one of gated attention, each with experts and a shared one. */
import { z } from "zod";
import type { ExpertsConfig } from "../decoder-features.ts";
import { checkActiveExperts } from "./active-experts.ts";
import { defineFamily, type ReadContext } from "./family.ts";
import { withoutRotaryShare } from "./partial-rotation.ts";
import { hybridKeys, readHybrid, writeHybrid } from "./qwen-hybrid.ts";
import {
  attentionNames,
  expertNames,
  headNormNames,
  layersName,
  linearAttentionNames,
  modelNames,
} from "./tensor-names.ts";

const size = z.number().int().positive();

const keys = z.object({
  ...hybridKeys,
  num_experts: size.default(512),
  num_experts_per_tok: size.default(10),
  moe_intermediate_size: size.default(512),
  shared_expert_intermediate_size: size.default(512),
  norm_topk_prob: z.boolean().default(true),
  decoder_sparse_step: z.literal(1).default(1),
  mlp_only_layers: z.array(z.number()).max(0).nullish(),
});

export const qwen3Next = defineFamily({
  className: "Qwen3NextForCausalLM",
  defaultHeadSize: 256,
  keys,
  shareKeys: withoutRotaryShare,
  readFeatures: (own, context) => ({
    ...readHybrid(own, true, context),
    experts: readExperts(own, context),
  }),
  writeFeatures: (features, config) => ({
    ...writeHybrid(features, config),
    num_experts: features.experts?.numExperts,
    num_experts_per_tok: features.experts?.numActive,
    moe_intermediate_size: features.experts?.width,
    shared_expert_intermediate_size: features.experts?.sharedWidth,
    norm_topk_prob: features.experts?.normalizeWeights,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  }),
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...attentionNames,
      ...headNormNames,
      ...linearAttentionNames,
      linearQkvz: { huggingFace: "linear_attn.in_proj_qkvz", gguf: "ssm_in" },
      linearBa: { huggingFace: "linear_attn.in_proj_ba", gguf: "ssm_ba" },
      ...expertNames,
      sharedGate: { huggingFace: "mlp.shared_expert.gate_proj", gguf: "ffn_gate_shexp" },
      sharedUp: { huggingFace: "mlp.shared_expert.up_proj", gguf: "ffn_up_shexp" },
      sharedDown: { huggingFace: "mlp.shared_expert.down_proj", gguf: "ffn_down_shexp" },
      sharedWeight: { huggingFace: "mlp.shared_expert_gate", gguf: "ffn_gate_inp_shexp" },
    },
  },
  // llama.cpp stores the projections of linear attention taken apart and reordered, which we do not undo.
  gguf: null,
});

function readExperts(own: z.infer<typeof keys>, context: ReadContext): ExpertsConfig {
  const { num_experts: numExperts, num_experts_per_tok: numActive } = own;
  checkActiveExperts(numActive, { key: "num_experts", numExperts }, context);
  return {
    numExperts,
    numActive,
    width: own.moe_intermediate_size,
    normalizeWeights: own.norm_topk_prob,
    hasBias: false,
    clampedGate: null,
    sharedWidth: own.shared_expert_intermediate_size,
  };
}

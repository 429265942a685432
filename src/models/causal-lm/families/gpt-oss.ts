/** gpt-oss: attention sinks, a sliding window in every second layer, and experts with biases and a clamped gate. */
import { z } from "zod";
import { type ExpertsConfig, plainFeatures } from "../decoder-features.ts";
import { checkActiveExperts } from "./active-experts.ts";
import { defineFamily, type ReadContext } from "./family.ts";
import { layerTypes, readWindow, windowKeys } from "./sliding-window.ts";
import { attentionNames, layersName, modelNames } from "./tensor-names.ts";

const size = z.number().int().positive();

const keys = z.object({
  ...windowKeys,
  hidden_act: z.literal("silu").default("silu"),
  attention_bias: z.boolean().default(true),
  intermediate_size: size,
  num_local_experts: size.default(128),
  num_experts_per_tok: size.default(4),
  swiglu_limit: z.number().positive().default(7),
  swiglu_alpha: z.number().positive().default(1.702),
  quantization_config: z.looseObject({ quant_method: z.string() }).nullish(),
});

export const gptOss = defineFamily({
  className: "GptOssForCausalLM",
  defaultHeadSize: 64,
  keys,
  shareKeys: (json) => ({ rms_norm_eps: 1e-5, rope_theta: 150_000, ...json }),
  readFeatures: (own, context) => ({
    ...plainFeatures,
    ...readWindow({ sliding_window: 128, ...own }, (layer) => layer % 2 === 0, context),
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    hasAttentionSinks: true,
    experts: readExperts(own, context),
  }),
  writeFeatures: (features, { numLayers }) => ({
    hidden_act: "silu",
    attention_bias: features.hasQkvBias,
    sliding_window: features.slidingWindow,
    layer_types: layerTypes(features, numLayers),
    num_local_experts: features.experts?.numExperts,
    num_experts_per_tok: features.experts?.numActive,
    swiglu_limit: features.experts?.clampedGate?.limit,
    swiglu_alpha: features.experts?.clampedGate?.alpha,
  }),
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...attentionNames,
      sinks: { huggingFace: "self_attn.sinks", gguf: "attn_sinks" },
      router: { huggingFace: "mlp.router", gguf: "ffn_gate_inp" },
      expertGateUp: { huggingFace: "mlp.experts.gate_up_proj", gguf: "ffn_gate_up_exps" },
      expertGateUpBias: { huggingFace: "mlp.experts.gate_up_proj_bias", gguf: "ffn_gate_up_exps.bias" },
      expertDown: { huggingFace: "mlp.experts.down_proj", gguf: "ffn_down_exps" },
      expertDownBias: { huggingFace: "mlp.experts.down_proj_bias", gguf: "ffn_down_exps.bias" },
    },
  },
  // llama.cpp stores its experts in MXFP4, which we do not read.
  gguf: null,
});

function readExperts(own: z.infer<typeof keys>, context: ReadContext): ExpertsConfig {
  const { num_local_experts: numExperts, num_experts_per_tok: numActive } = own;
  if (own.quantization_config) {
    throw context.invalid(
      `its experts are stored in ${own.quantization_config.quant_method}, which we do not read. ` +
        "Use a release in bfloat16, or save one with transformers: from_pretrained with Mxfp4Config(dequantize=True), then save_pretrained",
    );
  }
  checkActiveExperts(numActive, { key: "num_local_experts", numExperts }, context);
  return {
    numExperts,
    numActive,
    width: own.intermediate_size,
    normalizeWeights: true,
    hasBias: true,
    clampedGate: { limit: own.swiglu_limit, alpha: own.swiglu_alpha },
    sharedWidth: null,
  };
}

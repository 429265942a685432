/** Qwen3's mixtures: Qwen3 with a router and experts in place of every layer's MLP. */
import { z } from "zod";
import { type ExpertsConfig, plainFeatures } from "../decoder-features.ts";
import { checkActiveExperts } from "./active-experts.ts";
import { defineFamily, type ReadContext } from "./family.ts";
import { layerTypes, noWindow, optionalWindowKeys, readWindow, writeOptionalWindow } from "./sliding-window.ts";
import { attentionNames, expertNames, headNormNames, layersName, modelNames } from "./tensor-names.ts";

const size = z.number().int().positive();

const keys = z.object({
  hidden_act: z.literal("silu").default("silu"),
  attention_bias: z.boolean().default(false),
  ...optionalWindowKeys,
  num_experts: size.nullish(),
  num_local_experts: size.nullish(),
  num_experts_per_tok: size.nullish(),
  moe_intermediate_size: size.nullish(),
  norm_topk_prob: z.boolean().default(false),
  decoder_sparse_step: z.number().int().nullish(),
  mlp_only_layers: z.array(z.number()).nullish(),
});

export const qwen3Moe = defineFamily({
  className: "Qwen3MoeForCausalLM",
  defaultHeadSize: null,
  keys,
  readFeatures: (own, context) => ({
    ...plainFeatures,
    hasHeadNorm: true,
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    ...(own.use_sliding_window === true ? readWindow(own, () => true, context) : noWindow),
    experts: readExperts(own, context),
  }),
  writeFeatures: ({ hasQkvBias, slidingWindow, fullLayers, experts }, { numLayers }) => ({
    hidden_act: "silu",
    attention_bias: hasQkvBias,
    ...writeOptionalWindow(slidingWindow),
    ...(fullLayers === null ? {} : { layer_types: layerTypes({ slidingWindow, fullLayers }, numLayers) }),
    num_experts: experts?.numExperts,
    num_experts_per_tok: experts?.numActive,
    moe_intermediate_size: experts?.width,
    norm_topk_prob: experts?.normalizeWeights,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...headNormNames, ...expertNames } },
  gguf: {
    architecture: "qwen3moe",
    hasRopeFactors: false,
    storedForms: {},
    readKeys: (settings, tensors) => {
      const width =
        settings.optionalCount("qwen3moe.expert_feed_forward_length") ??
        tensors.get("blk.0.ffn_gate_exps.weight")?.shape[1];
      if (width === undefined) throw settings.invalid("it has no qwen3moe.expert_feed_forward_length");
      return {
        attention_bias: tensors.has("blk.0.attn_q.bias"),
        num_experts: settings.count("qwen3moe.expert_count"),
        num_experts_per_tok: settings.count("qwen3moe.expert_used_count"),
        moe_intermediate_size: width,
        // llama.cpp has both built in: the chosen experts' weights sum to 1, and every layer has experts.
        norm_topk_prob: true,
        decoder_sparse_step: 1,
        mlp_only_layers: [],
      };
    },
  },
});

function readExperts(own: z.infer<typeof keys>, context: ReadContext): ExpertsConfig {
  const numExperts = own.num_experts ?? own.num_local_experts;
  const numActive = own.num_experts_per_tok;
  const width = own.moe_intermediate_size;
  if (!numExperts || !numActive || !width) {
    const got = `${numExperts ?? "none"}, ${numActive ?? "none"} and ${width ?? "none"}`;
    throw context.invalid(
      `a qwen3_moe model needs num_experts, num_experts_per_tok and moe_intermediate_size: got ${got}`,
    );
  }
  checkActiveExperts(numActive, { key: "num_experts", numExperts }, context);
  if ((own.decoder_sparse_step ?? 1) !== 1 || (own.mlp_only_layers ?? []).length > 0) {
    throw context.invalid(
      `layers without experts are not supported: got decoder_sparse_step ${own.decoder_sparse_step ?? 1} and ` +
        `mlp_only_layers [${own.mlp_only_layers ?? ""}]. Supported: 1 and none`,
    );
  }
  return {
    numExperts,
    numActive,
    width,
    normalizeWeights: own.norm_topk_prob,
    hasBias: false,
    clampedGate: null,
    sharedWidth: null,
  };
}

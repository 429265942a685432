/** Qwen3.5, the dense models of text alone: three layers of linear attention to one of gated attention. */
import { z } from "zod";
import { defineFamily } from "./family.ts";
import { withoutRotaryShare } from "./partial-rotation.ts";
import { hybridKeys, readHybrid, writeHybrid } from "./qwen-hybrid.ts";
import {
  attentionNames,
  headNormNames,
  layersName,
  linearAttentionNames,
  mlpNames,
  modelNames,
} from "./tensor-names.ts";

/** Where pictures and films stand is of no account for text, whose positions are the same along all axes. */
function withoutAxes(rope: unknown): unknown {
  if (typeof rope !== "object" || rope === null) return rope;
  const { mrope_section: _s, mrope_interleaved: _i, ...rest } = rope as Record<string, unknown>;
  return rest;
}

export const qwen35 = defineFamily({
  className: "Qwen3_5ForCausalLM",
  defaultHeadSize: 256,
  keys: z.object(hybridKeys),
  shareKeys: (json) => {
    const shared = withoutRotaryShare(json);
    return { ...shared, rope_parameters: withoutAxes(shared.rope_parameters) };
  },
  readFeatures: (own, context) => readHybrid(own, false, context),
  writeFeatures: writeHybrid,
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...attentionNames,
      ...headNormNames,
      ...linearAttentionNames,
      linearQkv: { huggingFace: "linear_attn.in_proj_qkv", gguf: "attn_qkv" },
      linearZ: { huggingFace: "linear_attn.in_proj_z", gguf: "attn_gate" },
      linearB: { huggingFace: "linear_attn.in_proj_b", gguf: "ssm_beta" },
      linearA: { huggingFace: "linear_attn.in_proj_a", gguf: "ssm_alpha" },
      ...mlpNames,
    },
  },
  // llama.cpp reorders the heads of linear attention, which we do not undo.
  gguf: null,
});

/**
 * Names of tensors: llama.cpp's in, Hugging Face's out, with what has to be done to the values on the way.
 * Checked against llama.cpp's tensor_mapping and converter.
 */

/** The architectures whose tensors can be mapped. Mistral models are `llama` in GGUF. */
export const ggufArchitectures = ["llama", "qwen2", "qwen3", "qwen3moe"] as const;

/** An architecture by the name in `general.architecture`. */
export type GgufArchitecture = (typeof ggufArchitectures)[number];

/** What a tensor of a GGUF file is for Hugging Face. */
export type GgufTensorRole =
  /** The same values under another name. */
  | { readonly kind: "weight"; readonly name: string }
  /** A query or key projection of the llama architecture, whose rows llama.cpp interleaves per head (see `undoRopePermutation`). */
  | { readonly kind: "rope-permuted"; readonly name: string; readonly heads: "query" | "key" }
  /** The experts of one layer stacked along the first dimension; Hugging Face files have one tensor each. */
  | { readonly kind: "experts"; nameOf(expert: number): string }
  /** Frequency factors, which are configuration and not weights. */
  | { readonly kind: "rope-factors" }
  /** A tensor this architecture does not have. */
  | { readonly kind: "unknown" };

/** Tells what a GGUF tensor is. */
export function ggufTensorRole(name: string, architecture: GgufArchitecture): GgufTensorRole {
  if (name === "rope_freqs.weight" && architecture === "llama") return { kind: "rope-factors" };
  const whole = wholeModelNames.get(name);
  if (whole !== undefined) return { kind: "weight", name: whole };
  const [, layer, part, suffix] = layerPattern.exec(name) ?? [];
  if (layer === undefined || part === undefined || suffix === undefined) return { kind: "unknown" };
  return layerRole(`model.layers.${layer}`, part, suffix, architecture);
}

const wholeModelNames = new Map([
  ["token_embd.weight", "model.embed_tokens.weight"],
  ["output_norm.weight", "model.norm.weight"],
  ["output.weight", "lm_head.weight"],
]);

const layerPattern = /^blk\.(0|[1-9][0-9]{0,4})\.([a-z_]+)\.(weight|bias)$/;

function layerRole(layer: string, part: string, suffix: string, architecture: GgufArchitecture): GgufTensorRole {
  const isMixture = architecture === "qwen3moe";
  const expertPart = isMixture && suffix === "weight" ? expertParts.get(part) : undefined;
  if (expertPart !== undefined) {
    return { kind: "experts", nameOf: (expert) => `${layer}.mlp.experts.${expert}.${expertPart}.weight` };
  }
  const partName =
    partNames.get(part) ?? (isMixture ? routerNames : denseNames).get(part) ?? headNormNames(architecture).get(part);
  if (partName === undefined) return { kind: "unknown" };
  const name = `${layer}.${partName}.${suffix}`;
  if (architecture === "llama" && part === "attn_q") return { kind: "rope-permuted", name, heads: "query" };
  if (architecture === "llama" && part === "attn_k") return { kind: "rope-permuted", name, heads: "key" };
  return { kind: "weight", name };
}

const partNames = new Map([
  ["attn_norm", "input_layernorm"],
  ["attn_q", "self_attn.q_proj"],
  ["attn_k", "self_attn.k_proj"],
  ["attn_v", "self_attn.v_proj"],
  ["attn_output", "self_attn.o_proj"],
  ["ffn_norm", "post_attention_layernorm"],
]);

const denseNames = new Map([
  ["ffn_gate", "mlp.gate_proj"],
  ["ffn_up", "mlp.up_proj"],
  ["ffn_down", "mlp.down_proj"],
]);

const routerNames = new Map([["ffn_gate_inp", "mlp.gate"]]);

const expertParts = new Map([
  ["ffn_gate_exps", "gate_proj"],
  ["ffn_up_exps", "up_proj"],
  ["ffn_down_exps", "down_proj"],
]);

const qwen3HeadNorms = new Map([
  ["attn_q_norm", "self_attn.q_norm"],
  ["attn_k_norm", "self_attn.k_norm"],
]);

function headNormNames(architecture: GgufArchitecture): ReadonlyMap<string, string> {
  return architecture === "qwen3" || architecture === "qwen3moe" ? qwen3HeadNorms : new Map();
}

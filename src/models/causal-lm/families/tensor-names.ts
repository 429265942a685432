/**
 * The names that families share: Hugging Face's, and llama.cpp's for the same weight. Checked against llama.cpp's
 * tensor_mapping and its converter. A family spreads the groups it has, and replaces the names in which it differs.
 */

/** Weights of the whole model. */
export const modelNames = {
  embedding: { huggingFace: "model.embed_tokens", gguf: "token_embd" },
  norm: { huggingFace: "model.norm", gguf: "output_norm" },
  head: { huggingFace: "lm_head", gguf: "output" },
} as const;

/** The prefix of every layer; the number of the layer follows it. */
export const layersName = { huggingFace: "model.layers", gguf: "blk" } as const;

/** Attention, and the norms before attention and MLP. */
export const attentionNames = {
  inputNorm: { huggingFace: "input_layernorm", gguf: "attn_norm" },
  query: { huggingFace: "self_attn.q_proj", gguf: "attn_q" },
  key: { huggingFace: "self_attn.k_proj", gguf: "attn_k" },
  value: { huggingFace: "self_attn.v_proj", gguf: "attn_v" },
  output: { huggingFace: "self_attn.o_proj", gguf: "attn_output" },
  postAttentionNorm: { huggingFace: "post_attention_layernorm", gguf: "ffn_norm" },
} as const;

/** Norms of query and key heads. */
export const headNormNames = {
  queryNorm: { huggingFace: "self_attn.q_norm", gguf: "attn_q_norm" },
  keyNorm: { huggingFace: "self_attn.k_norm", gguf: "attn_k_norm" },
} as const;

/** Norms around attention and MLP: postAttentionNorm is the one before the MLP. */
export const outputNormNames = {
  attentionOutputNorm: { huggingFace: "post_attention_layernorm", gguf: "post_attention_norm" },
  postAttentionNorm: { huggingFace: "pre_feedforward_layernorm", gguf: "ffn_norm" },
  mlpOutputNorm: { huggingFace: "post_feedforward_layernorm", gguf: "post_ffw_norm" },
} as const;

/** Linear attention, but its input projections. */
export const linearAttentionNames = {
  linearConvolution: { huggingFace: "linear_attn.conv1d", gguf: "ssm_conv1d" },
  linearStepBias: { huggingFace: "linear_attn.dt_bias", gguf: "ssm_dt" },
  linearLogDecay: { huggingFace: "linear_attn.A_log", gguf: "ssm_a" },
  linearNorm: { huggingFace: "linear_attn.norm", gguf: "ssm_norm" },
  linearOutput: { huggingFace: "linear_attn.out_proj", gguf: "ssm_out" },
} as const;

/** One gated MLP per layer. */
export const mlpNames = {
  gate: { huggingFace: "mlp.gate_proj", gguf: "ffn_gate" },
  up: { huggingFace: "mlp.up_proj", gguf: "ffn_up" },
  down: { huggingFace: "mlp.down_proj", gguf: "ffn_down" },
} as const;

/** One gated MLP per layer, whose gate and up are held as one. */
export const jointMlpNames = {
  gateUp: { huggingFace: "mlp.gate_up_proj", gguf: "ffn_up" },
  down: mlpNames.down,
} as const;

/** A router and its experts. */
export const expertNames = {
  router: { huggingFace: "mlp.gate", gguf: "ffn_gate_inp" },
  expertGate: { huggingFace: "mlp.experts.*.gate_proj", gguf: "ffn_gate_exps" },
  expertUp: { huggingFace: "mlp.experts.*.up_proj", gguf: "ffn_up_exps" },
  expertDown: { huggingFace: "mlp.experts.*.down_proj", gguf: "ffn_down_exps" },
} as const;

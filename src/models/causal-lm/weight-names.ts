/**
 * The weights of a model under their Hugging Face names.
 *
 * Our parameters hold several of those side by side ([query | key | value], all experts), so each name is a part of a
 * parameter: a view, through which values are loaded, saved and compared.
 */
import type { Parameter } from "../../torch/nn/module.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { Experts } from "./experts.ts";
import type { Projection } from "./projection.ts";

/** One weight of a checkpoint: part of a parameter. */
export interface NamedWeight {
  readonly name: string;
  readonly parameter: Parameter;
  /** The part of the parameter, or of anything of its shape such as its gradient. */
  readonly viewOf: (whole: Tensor) => Tensor;
}

/** Every weight a checkpoint of this model has. */
export function namedWeights(model: CausalLm): NamedWeight[] {
  const weights: NamedWeight[] = [whole("model.embed_tokens.weight", model.embedding)];
  model.layers.forEach((layer, i) => {
    const at = `model.layers.${i}`;
    const { attention, mlp } = layer;
    weights.push(whole(`${at}.input_layernorm.weight`, layer.inputNorm.weight));
    weights.push(...projection(`${at}.self_attn`, attention.qkv), ...projection(`${at}.self_attn`, attention.output));
    if (attention.queryNorm !== null) weights.push(whole(`${at}.self_attn.q_norm.weight`, attention.queryNorm.weight));
    if (attention.keyNorm !== null) weights.push(whole(`${at}.self_attn.k_norm.weight`, attention.keyNorm.weight));
    weights.push(whole(`${at}.post_attention_layernorm.weight`, layer.postAttentionNorm.weight));
    if (mlp instanceof Experts) weights.push(...experts(`${at}.mlp`, mlp));
    else weights.push(...projection(`${at}.mlp`, mlp.gateUp), ...projection(`${at}.mlp`, mlp.down));
  });
  weights.push(whole("model.norm.weight", model.norm.weight));
  if (!model.config.tieEmbeddings) weights.push(whole("lm_head.weight", model.head));
  return weights;
}

/** The projections of a model with the Hugging Face name of the block each is in, such as model.layers.0.self_attn. */
export function namedProjections(model: CausalLm): { readonly block: string; readonly projection: Projection }[] {
  return model.layers.flatMap(({ attention, mlp }, i) => {
    const at = `model.layers.${i}`;
    const inAttention = [attention.qkv, attention.output].map((item) => ({
      block: `${at}.self_attn`,
      projection: item,
    }));
    const inMlp =
      mlp instanceof Experts ? [] : [mlp.gateUp, mlp.down].map((item) => ({ block: `${at}.mlp`, projection: item }));
    return [...inAttention, ...inMlp];
  });
}

function whole(name: string, parameter: Parameter): NamedWeight {
  return { name, parameter, viewOf: (tensor) => tensor };
}

function projection(block: string, { parts, weight, bias }: Projection): NamedWeight[] {
  let start = 0;
  return parts.flatMap(({ name, width }) => {
    const from = start;
    start += width;
    const viewOf = (tensor: Tensor) => tensor.narrow(0, from, width);
    const named = [{ name: `${block}.${name}.weight`, parameter: weight, viewOf }];
    return bias === null ? named : [...named, { name: `${block}.${name}.bias`, parameter: bias, viewOf }];
  });
}

function experts(block: string, { router, gateUp, down }: Experts): NamedWeight[] {
  const numExperts = router.size(0);
  const width = down.size(2);
  const each = Array.from({ length: numExperts }, (_, e) => [
    {
      name: `${block}.experts.${e}.gate_proj.weight`,
      parameter: gateUp,
      viewOf: (t: Tensor) => t.select(0, e).narrow(0, 0, width),
    },
    {
      name: `${block}.experts.${e}.up_proj.weight`,
      parameter: gateUp,
      viewOf: (t: Tensor) => t.select(0, e).narrow(0, width, width),
    },
    { name: `${block}.experts.${e}.down_proj.weight`, parameter: down, viewOf: (t: Tensor) => t.select(0, e) },
  ]);
  return [whole(`${block}.gate.weight`, router), ...each.flat()];
}

/**
 * The weights of a model under their Hugging Face names.
 *
 * Our parameters hold several of those side by side ([query | key | value], all experts), so each name is a part of a
 * parameter: a view, through which values are loaded, saved and compared.
 */
import { invariant } from "../../errors/reroll-error.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import type { LayerPart, ModelPart } from "./decoder-features.ts";
import type { ModelFamily } from "./families/family.ts";
import { families } from "./families/table.ts";
import type { Projection } from "./projection.ts";

/** One weight of a checkpoint: part of a parameter. */
export interface NamedWeight {
  readonly name: string;
  /** The layer it belongs to; null for none. */
  readonly layer: number | null;
  readonly parameter: Parameter;
  /** The part of the parameter, or of anything of its shape such as its gradient. */
  readonly viewOf: (whole: Tensor) => Tensor;
  /** The values of the parameter, where they are not its own: see Projection.quantize. */
  readonly valuesOf?: () => Tensor;
  /** Puts values in their place, where that is not the parameter: see Fp8Matrix. */
  readonly write?: (values: Tensor) => void;
  /** Whether another rank has it: see LayerWeight. */
  readonly isElsewhere?: boolean;
}

/** The values of a weight: a view of its parameter, or a copy where the model holds them in fewer bits. */
export function weightValues({ parameter, viewOf, valuesOf }: NamedWeight): Tensor {
  return viewOf(valuesOf?.() ?? parameter.detach());
}

/** Puts new values of a weight in their place. Call it under `noGrad`. */
export function writeWeight({ parameter, viewOf, write }: NamedWeight, values: Tensor): void {
  if (write === undefined) viewOf(parameter.detach()).copy_(values);
  else write(values);
}

/** Every weight a checkpoint of this model has. */
export function namedWeights(model: CausalLm): NamedWeight[] {
  const { names } = families[model.config.family];
  const whole = (part: ModelPart, parameter: Parameter) => ({
    name: `${names.model[part].huggingFace}.weight`,
    layer: null,
    parameter,
    viewOf: (tensor: Tensor) => tensor,
  });
  return [
    whole("embedding", model.embedding),
    ...model.layers.flatMap((layer, i) =>
      layer.weights().map(({ part, kind, expert, ...weight }) => ({
        name: `${layerPath(names, i, part).replace("*", String(expert))}${kind === "bare" ? "" : `.${kind}`}`,
        layer: i,
        ...weight,
      })),
    ),
    whole("norm", model.norm.weight),
    ...(model.config.tieEmbeddings ? [] : [whole("head", model.head)]),
  ];
}

/** A projection, and the Hugging Face names of its parts, such as model.layers.0.self_attn.q_proj. */
interface NamedProjection {
  readonly projection: Projection;
  readonly layer: number;
  readonly pathOf: (part: LayerPart) => string;
}

/** The projections of a model, layer after layer. */
export function namedProjections(model: CausalLm): NamedProjection[] {
  const { names } = families[model.config.family];
  return model.layers.flatMap(({ projections }, i) =>
    projections.map((projection) => ({ projection, layer: i, pathOf: (part) => layerPath(names, i, part) })),
  );
}

function layerPath({ layers, layer }: ModelFamily["names"], index: number, part: LayerPart): string {
  const name = layer[part];
  invariant(name !== undefined, `the family names no ${part}, which the model has`);
  return `${layers.huggingFace}.${index}.${name.huggingFace}`;
}

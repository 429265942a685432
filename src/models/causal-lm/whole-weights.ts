/** The weights of a model that is all here, or of which ranks have parts: under their Hugging Face names, as files and engines want them. */
import { noGrad } from "../../torch/autograd.ts";
import { wholeFor, wholeOf } from "../../torch/distributed/split.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { loraAdapters, withAdapter } from "./lora.ts";
import { mergedWeights } from "./merged-weights.ts";
import { namedProjections, namedWeights, weightValues } from "./weight-names.ts";

interface WholeWeightOptions {
  /** Whether LoRA adapters are added in. */
  readonly isMerged: boolean;
  /** Whether this rank wants them. The others only give their parts. */
  readonly isKept: boolean;
}

/**
 * Views of the parameters where they are all here, else copies, one layer after the other. Views change when the model does. Call it on
 * all ranks, in a `tensorScope`, or dispose what it gives.
 */
export function wholeWeights(model: CausalLm, options: WholeWeightOptions): ReadonlyMap<string, Tensor> {
  const all = namedWeights(model);
  const { isMerged, isKept } = options;
  if (isAllHere(model) && !isKept) return new Map();
  if (isAllHere(model))
    return isMerged ? mergedWeights(model) : new Map(all.map((weight) => [weight.name, weightValues(weight)]));
  const found = new Map(layersOf(model).flatMap((layer) => [...layerWeights(model, layer, options)]));
  // In the order of files.
  return new Map(all.flatMap(({ name }) => (found.has(name) ? [[name, found.get(name)!] as const] : [])));
}

function isAllHere({ runner, spread: { tensor, expert, stages } }: CausalLm): boolean {
  return runner.isResident && tensor.count * expert.count * stages.count === 1;
}

/** The layers of a model, null for what is in none, in the order in which their weights are asked for. */
export function layersOf({ layers }: CausalLm): readonly (number | null)[] {
  return [null, ...layers.keys()];
}

/** The same of one layer, or of what is in none: of a model that ranks have parts of, no more than a layer is whole at a time. */
export function layerWeights(
  model: CausalLm,
  layer: number | null,
  { isMerged, isKept }: WholeWeightOptions,
): ReadonlyMap<string, Tensor> {
  const found = new Map<string, Tensor>();
  if (isAllHere(model) && !isKept) return found;
  const { expert, stages } = model.spread;
  const adapters = isMerged ? loraAdapters(model) : new Map<string, never>();
  model.runner.withWeights(layer, () =>
    noGrad(() => {
      const stacks = new Map<Parameter, Tensor | null>();
      for (const { name, parameter, viewOf } of namedWeights(model).filter((one) => one.layer === layer)) {
        const { shard } = parameter;
        const from = stageOf(model, layer, parameter);
        if (shard !== null && shard.ranks === expert) {
          if (!stacks.has(parameter)) {
            const part = stages.toFirst(parameter.detach(), from, model.device);
            stacks.set(parameter, part && wholeOf(part, shard));
          }
          if (isKept) found.set(name, viewOf(stacks.get(parameter)!).clone());
          continue;
        }
        const own = viewOf(parameter.detach());
        const adapter = name.endsWith(".weight") ? adapters.get(name.slice(0, -".weight".length)) : undefined;
        const merged = adapter === undefined ? own : withAdapter(own, adapter);
        const brought = stages.toFirst(merged, from, model.device);
        if (brought === null) continue;
        const whole = shard === null ? brought : wholeFor(brought, parameter.shape.length, shard);
        // What was gathered is gone when the next layer comes.
        if (isKept) found.set(name, whole === own && !model.runner.isResident ? whole.clone() : whole);
      }
    }),
  );
  return found;
}

/** The first stage that has a parameter. */
function stageOf(
  { spread: { stages }, config, embedding }: CausalLm,
  layer: number | null,
  parameter: Parameter,
): number {
  if (layer !== null) return stages.stageOf(layer, config.numLayers);
  return parameter === embedding ? 0 : stages.count - 1;
}

interface WholeAdapter {
  readonly path: string;
  readonly a: Tensor;
  readonly b: Tensor;
  readonly scale: number;
}

/** The matrices of all adapters by the Hugging Face name of the module they change. Call it on all ranks, in a `tensorScope`. */
export function wholeAdapters(model: CausalLm): WholeAdapter[] {
  const { runner, config } = model;
  const { stages } = model.spread;
  const wholeAt = (layer: number, parameter: Parameter) => {
    const part = stages.toFirst(parameter.detach(), stages.stageOf(layer, config.numLayers), model.device);
    if (part === null) return parameter.detach();
    const whole = parameter.shard === null ? part : wholeOf(part, parameter.shard);
    return runner.isResident ? whole : whole.clone();
  };
  return namedProjections(model).flatMap(({ projection, layer, pathOf }) =>
    runner.withWeights(layer, () =>
      projection.adapters.map(({ part, a, b, scale }) => ({
        path: pathOf(part),
        scale,
        a: wholeAt(layer, a),
        b: wholeAt(layer, b),
      })),
    ),
  );
}

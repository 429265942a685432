/** Adapters as they travel from a trainer to an engine, where both have the weights that they change. */
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { loraSites, removeLora } from "./lora.ts";
import { LoraAdapter } from "./projection.ts";
import { wholeAdapters } from "./whole-weights.ts";

const suffix = ".lora_A.weight";

/** Both matrices of every adapter and its scale, by the name of its module. Matrices may be views; dispose what it gives. Call it on all ranks. */
export function adapterWeights(model: CausalLm): ReadonlyMap<string, Tensor> {
  return new Map(
    wholeAdapters(model).flatMap(({ path, a, b, scale }) => [
      [`${path}${suffix}`, a] as const,
      [`${path}.lora_B.weight`, b] as const,
      [`${path}.lora_scale`, tensor([scale], { dtype: "float64" })] as const,
    ]),
  );
}

/** The modules that adapters are for; none where these are whole weights. */
export function adapterPaths(weights: ReadonlyMap<string, Tensor>): readonly string[] {
  return [...weights.keys()].filter((name) => name.endsWith(suffix)).map((name) => name.slice(0, -suffix.length));
}

/** Gives a model the adapters of another one, in place of those it has. Copies what it is given. */
export function takeAdapters(model: CausalLm, weights: ReadonlyMap<string, Tensor>): void {
  const sites = new Map(loraSites(model, "all-linear").map((site) => [site.path, site]));
  const paths = adapterPaths(weights);
  const unknown = paths.find((path) => !sites.has(path));
  if (unknown !== undefined || 3 * paths.length !== weights.size) {
    throw new RerollError(
      "WEIGHTS_MISMATCH",
      `The engine's model is quantized and takes adapters alone: got ${unknown ?? "other weights"}. Train it with the same model.quantization.`,
    );
  }
  const { device } = model.embedding;
  removeLora(model);
  for (const path of paths) {
    const { projection, part } = sites.get(path)!;
    const value = (name: string) => {
      const found = weights.get(`${path}.${name}`);
      invariant(found !== undefined, `an adapter came without ${name}`);
      return found;
    };
    const copyOf = (x: Tensor) => noGrad(() => createParameter(x.shape, () => x.detach().clone().toDevice(device), {}));
    const a = copyOf(value("lora_A.weight"));
    const scaling = { alpha: value("lora_scale").item() * a.size(0), isRankStabilized: false };
    const adapter = new LoraAdapter(part.name, a, copyOf(value("lora_B.weight")), scaling);
    adapter.setTrainable(false);
    projection.adapters = [...projection.adapters, adapter];
  }
}

/** Adapters as they travel from a trainer to an engine, where both have the weights that they change. */
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { type LoraSite, loraSites, removeLora } from "./lora.ts";
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

/**
 * Gives a model the adapters of another one, in place of those it has. Copies what it is given: into the adapters that are there where they
 * are alike, so that what reads those, such as a recorded step of an engine, reads the new ones.
 */
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
  const arrived = paths.map((path) => {
    const value = (name: string) => {
      const found = weights.get(`${path}.${name}`);
      invariant(found !== undefined, `an adapter came without ${name}`);
      return found;
    };
    const [a, b] = [value("lora_A.weight"), value("lora_B.weight")];
    const { projection, part } = sites.get(path)!;
    const there = projection.adapters.find((adapter) => adapter.part === part.name);
    return { projection, part: part.name, a, b, scale: value("lora_scale").item(), there };
  });
  const numThere = [...sites.values()].filter(hasAdapter).length;
  const isAlike = ({ there, a, b, scale }: (typeof arrived)[number]) =>
    there !== undefined && there.scale === scale && isOfKind(there.a, a) && isOfKind(there.b, b);
  if (numThere === paths.length && arrived.every(isAlike)) {
    noGrad(() => {
      for (const { there, a, b } of arrived) {
        there!.a.copy_(a);
        there!.b.copy_(b);
      }
    });
    return;
  }
  const { device } = model.embedding;
  removeLora(model);
  for (const { projection, part, a, b, scale } of arrived) {
    const copyOf = (x: Tensor) => noGrad(() => createParameter(x.shape, () => x.detach().clone().toDevice(device), {}));
    const scaling = { alpha: scale * a.size(0), isRankStabilized: false };
    const adapter = new LoraAdapter(part, copyOf(a), copyOf(b), scaling);
    adapter.setTrainable(false);
    projection.adapters = [...projection.adapters, adapter];
  }
}

function hasAdapter({ projection, part }: LoraSite): boolean {
  return projection.adapters.some((adapter) => adapter.part === part.name);
}

function isOfKind(own: Tensor, other: Tensor): boolean {
  return own.dtype === other.dtype && `${own.shape}` === `${other.shape}`;
}

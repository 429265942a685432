/**
 * LoRA: small trainable changes on a frozen model. Hu et al. 2021.
 *
 * With adapters, `model.trainableParameters()` are exactly the adapters, and the model without them is the reference
 * policy at no cost in memory. Initial values and scaling are PEFT's.
 */

import { nearestName } from "../../errors/nearest-name.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { zeros } from "../../torch/create.ts";
import type { Split } from "../../torch/distributed/split.ts";
import type { Device, DType } from "../../torch/dtype.ts";
import { createParameter, initialize } from "../../torch/nn/initialize.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import type { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { splitAlong } from "./model-spread.ts";
import { LoraAdapter, type Projection, type ProjectionPart } from "./projection.ts";
import { isQuantized } from "./quantize-model.ts";
import { namedProjections } from "./weight-names.ts";

export interface LoraOptions {
  readonly rank: number;
  /** The change is scaled by alpha / rank. */
  readonly alpha: number;
  /**
   * The parts to adapt, of every layer: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj. A longer name
   * means fewer of them, such as layers.0.self_attn.q_proj. The experts of a mixture cannot be adapted.
   */
  readonly targets: readonly string[] | "all-linear";
  /** Draws the initial values; must be a CPU generator. */
  readonly generator: Generator;
  /** Scale by alpha / sqrt(rank), so that high ranks learn as fast as low ones. Default false. */
  readonly useRslora?: boolean;
  /** The type of the adapters. Default: the type of the model. Use float32 to keep updates that a 16-bit type would round away. */
  readonly dtype?: DType;
}

/** Adds adapters that change nothing yet, and freezes everything else. */
export function addLora(model: CausalLm, options: LoraOptions): void {
  const { rank, alpha, targets, generator, useRslora = false } = options;
  if (!Number.isInteger(rank) || rank < 1) {
    throw new RerollError("INVALID_ARGUMENT", `rank must be an integer of at least 1: got ${rank}.`);
  }
  if (!Number.isFinite(alpha) || alpha <= 0) {
    throw new RerollError("INVALID_ARGUMENT", `alpha must be above 0: got ${alpha}. Usual values are rank to 2 rank.`);
  }
  const dtype = options.dtype ?? model.embedding.dtype;
  attachLora(model, loraSites(model, targets), ({ part, inputWidth, splits, device }) => {
    const place = { generator, device, dtype };
    // Kaiming for a leaky ReLU of slope sqrt(5): uniform within 1 / sqrt(inputWidth).
    const a = createParameter([rank, inputWidth], initialize.kaimingUniform(Math.sqrt(2 / 6)), place, splits.a);
    const b = createParameter([part.width, rank], zeros, place, splits.b);
    return new LoraAdapter(part.name, a, b, { alpha, isRankStabilized: useRslora });
  });
}

/** Runs `body` on the model as it was before its adapters. `body` is synchronous. */
export function withoutLora<Result>(model: CausalLm, body: () => Result): Result {
  return withAdapters(model, "withoutLora", () => [], body);
}

/** The adapters that a model had at one moment, by the projections they change. They learn nothing. */
export type LoraCopy = ReadonlyMap<Projection, readonly LoraAdapter[]>;

/** Copies the adapters of a model as they are now. */
export function copyLora(model: CausalLm): LoraCopy {
  expectAdapters(model, "copyLora");
  const projections = namedProjections(model).map(({ projection }) => projection);
  return new Map(projections.map((projection) => [projection, projection.adapters.map(copyAdapter)]));
}

/** Runs `body` on the model with the adapters it had when they were copied. `body` is synchronous. */
export function withLoraCopy<Result>(model: CausalLm, copy: LoraCopy, body: () => Result): Result {
  return withAdapters(model, "withLoraCopy", (projection) => copy.get(projection) ?? [], body);
}

function copyAdapter({ part, a, b, scaling }: LoraAdapter): LoraAdapter {
  const copyOf = (value: Parameter) => createParameter(value.shape, () => value.detach().clone(), {});
  const copy = new LoraAdapter(part, copyOf(a), copyOf(b), scaling);
  copy.setTrainable(false);
  return copy;
}

function withAdapters<Result>(
  model: CausalLm,
  caller: string,
  adaptersOf: (projection: Projection) => readonly LoraAdapter[],
  body: () => Result,
): Result {
  expectAdapters(model, caller);
  const projections = namedProjections(model).map(({ projection }) => ({ projection, adapters: projection.adapters }));
  try {
    for (const { projection } of projections) projection.adapters = adaptersOf(projection);
    const result = body();
    if (result instanceof Promise) {
      throw new RerollError(
        "ASYNC_SCOPE",
        `${caller} got a function that returns a promise. The adapters are back on when it returns: await outside.`,
      );
    }
    return result;
  } finally {
    for (const { projection, adapters } of projections) projection.adapters = adapters;
  }
}

/** Adds the changes to the weights and removes the adapters. The weights stay frozen: see setTrainable. */
export function mergeLora(model: CausalLm): void {
  expectAdapters(model, "mergeLora");
  if (isQuantized(model)) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      "mergeLora got a model with quantized weights, which cannot hold what its adapters add. Save it merged instead: saveCausalLm with isMerged.",
    );
  }
  noGrad(() => {
    for (const { projection } of namedProjections(model)) {
      for (const adapter of projection.adapters) tensorScope(() => mergeAdapter(projection, adapter));
    }
  });
  removeLora(model);
}

/** Removes and frees the adapters; what they learned is lost. The weights stay frozen: see setTrainable. */
export function removeLora(model: CausalLm): void {
  for (const { projection } of namedProjections(model)) {
    for (const adapter of projection.adapters) adapter.dispose();
    projection.adapters = [];
  }
}

/** A linear map that an adapter can be attached to. */
export interface LoraSite {
  /** The Hugging Face name of the module, such as model.layers.0.self_attn.q_proj. */
  readonly path: string;
  readonly projection: Projection;
  /** The part and the width of the input as the whole model has them. */
  readonly part: ProjectionPart;
  readonly inputWidth: number;
  /** Where an adapter belongs: where the model computes, or nowhere where another stage has the layer. */
  readonly device: Device;
  /** How the matrices of an adapter are split, as the weight is that it changes. */
  readonly splits: { readonly a: Split | null; readonly b: Split | null };
}

/** The places that these targets name: as in PEFT, a target is the whole path or its end. */
export function loraSites(model: CausalLm, targets: readonly string[] | "all-linear"): LoraSite[] {
  const { start, length } = model.own;
  const sites = namedProjections(model).flatMap(({ projection, layer, pathOf }) =>
    projection.parts.map(({ name, width: ownWidth }) => {
      const { input, output } = projection.ranks;
      const [width, inputWidth] = [ownWidth * output.count, projection.inputWidth * input.count];
      const splits = { a: splitAlong(1, [inputWidth / input.count], input), b: splitAlong(0, [ownWidth], output) };
      const device = layer >= start && layer < start + length ? model.device : "meta";
      return { path: pathOf(name), projection, part: { name, width }, inputWidth, splits, device };
    }),
  );
  if (targets === "all-linear") return sites;
  expectTargets(targets, sites);
  return sites.filter((site) => targets.some((target) => isTarget(target, site)));
}

/** Adds one adapter per site, all or none, and freezes everything else. */
export function attachLora(model: CausalLm, sites: readonly LoraSite[], create: (site: LoraSite) => LoraAdapter): void {
  if (loraAdapters(model).size > 0) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      "The model has LoRA adapters already. Call mergeLora or removeLora before adding others.",
    );
  }
  const made = sites.map((site) => ({ projection: site.projection, adapter: create(site) }));
  model.setTrainable(false).zeroGrad();
  for (const { projection, adapter } of made) projection.adapters = [...projection.adapters, adapter];
}

/** The adapters of a model by the Hugging Face name of the module they change. */
export function loraAdapters(model: CausalLm): Map<string, LoraAdapter> {
  return new Map(
    namedProjections(model).flatMap(({ projection, pathOf }) =>
      projection.adapters.map((adapter) => [pathOf(adapter.part), adapter] as const),
    ),
  );
}

/** Throws for a model without adapters: the caller would take the policy itself for the model before it. */
export function expectAdapters(model: CausalLm, caller: string): void {
  if (loraAdapters(model).size > 0) return;
  throw new RerollError("NO_ADAPTERS", `${caller} got a model without LoRA adapters. Call addLora or loadLora first.`);
}

/** The last part of a module's path, such as q_proj: the name by which it is a target in every layer. */
export function moduleName(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1);
}

function isTarget(target: string, { path }: LoraSite): boolean {
  return path === target || path.endsWith(`.${target}`);
}

function expectTargets(targets: readonly string[], sites: readonly LoraSite[]): void {
  const known = new Set(sites.map(({ path }) => moduleName(path)));
  const allowed = `Allowed: ${[...known].join(", ")}; or "all-linear".`;
  if (targets.length === 0) throw new RerollError("INVALID_OPTION", `targets is empty. ${allowed}`);
  const wrong = targets.find((target) => !sites.some((site) => isTarget(target, site)));
  if (wrong === undefined) return;
  const nearest = nearestName(wrong, known);
  const hint = nearest === undefined ? "" : ` Did you mean "${nearest}"?`;
  throw new RerollError("INVALID_OPTION", `targets has "${wrong}", which this model has not. ${allowed}${hint}`);
}

function mergeAdapter(projection: Projection, adapter: LoraAdapter): void {
  const { start, width } = projection.rangeOf(adapter.part);
  const weight = projection.weight.detach().narrow(0, start, width);
  weight.copy_(withAdapter(weight, adapter));
}

interface LoraMatrices {
  readonly a: Tensor;
  readonly b: Tensor;
}

/** weight + scale B A, rounded once to the type of the weight. */
export function withAdapter(weight: Tensor, { a, b, scale }: Pick<LoraAdapter, "scale"> & LoraMatrices): Tensor {
  const exact = weight.dtype === "float64" ? "float64" : "float32";
  return weight
    .to(exact)
    .add(b.detach().to(exact).mm(a.detach().to(exact)), scale)
    .to(weight.dtype);
}

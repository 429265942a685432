/**
 * Every rank owns an equal part of all parameters and updates that: ZeRO (Rajbhandari et al. 2020).
 *
 * Stage 1 shards what the optimizer knows. Stage 2 shards the gradients too: those of a layer are summed and cut as soon as the backward pass has
 * left it. Stage 3 shards the weights too: a layer is gathered when it runs, and computed again in the backward pass. Weights outside
 * of the layers (embedding, output matrix, last norm) stay gathered from their first use until they change.
 *
 * With `offload`, the optimizer has its part of the weights and all that it knows in host memory, and updates there.
 */
import { noGrad } from "../../torch/autograd.ts";
import { empty, tensor } from "../../torch/create.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import { Parameter } from "../../torch/nn/module.ts";
import type { GradientBound } from "../../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { FlatUnit } from "./flat-unit.ts";
import { type Mesh, replicasOf } from "./mesh.ts";
import { clipOver, type ParameterSet, type SavedState, type StateParts } from "./parameter-set.ts";
import { type OwnedSlice, restoreSlices, type ShardedParts, slicesToSave } from "./sharded-state.ts";
import type { OptimizerBuild } from "./strategy.ts";

export interface ShardedSetOptions {
  readonly zero: 0 | 1 | 2 | 3;
  readonly offload: "none" | "optimizer" | "parameters";
  /** Where the model computes. */
  readonly device: string;
}

/** The units of a model by layer; null has all that is in none. */
export type UnitsByLayer = ReadonlyMap<number | null, readonly FlatUnit[]>;

/** Cuts parameters into units: those of a layer, of one type, that are treated alike. */
export function createUnits(
  parameters: NamedParameters,
  mesh: Mesh,
  { zero, offload, device }: ShardedSetOptions,
): UnitsByLayer {
  const lists = new Map<string, { readonly layer: number | null; readonly entries: [string, Parameter][] }>();
  for (const [name, parameter] of parameters) {
    const { requiresGrad, shard, dtype, isAtBothEnds } = parameter;
    if (!requiresGrad && zero < 3) continue;
    const found = /(?:^|\.)layers\.(\d+)\./.exec(name);
    const layer = found === null ? null : Number(found[1]);
    const key = [layer, dtype, requiresGrad, shard === null, shard?.ranks === mesh.expert, isAtBothEnds].join(" ");
    const list = lists.get(key);
    if (list === undefined) lists.set(key, { layer, entries: [[name, parameter]] });
    else list.entries.push([name, parameter]);
  }
  const units = new Map<number | null, FlatUnit[]>();
  for (const { layer, entries } of lists.values()) {
    const ranks = new Collective(replicasOf(mesh, entries[0]![1]));
    const options = { ranks, device, isResident: zero < 3, isOnHost: offload === "parameters" };
    units.set(layer, [...(units.get(layer) ?? []), new FlatUnit(entries, options)]);
  }
  return units;
}

export class ShardedSet implements ParameterSet {
  readonly units: UnitsByLayer;
  readonly optimizer: Optimizer;
  /** Updates the slices. */
  readonly #inner: Optimizer;
  readonly #mesh: Mesh;
  readonly #replicas: Collective;
  readonly #options: ShardedSetOptions;
  readonly #parameters: NamedParameters;
  readonly #trained: readonly FlatUnit[];
  readonly #slices: ReadonlyMap<string, OwnedSlice>;
  readonly #gradients = new Map<FlatUnit, Tensor>();
  /** Names of parameters that had a gradient in the update under way. */
  readonly #used = new Set<string>();

  constructor(mesh: Mesh, parameters: NamedParameters, build: OptimizerBuild, options: ShardedSetOptions) {
    this.#mesh = mesh;
    this.#replicas = new Collective(mesh.replicas);
    this.#options = options;
    this.#parameters = parameters;
    const isMatrix = new Map([...parameters].map(([name, { shape }]) => [name, shape.length >= 2]));
    this.units = createUnits(parameters, mesh, options);
    this.#trained = [...this.units.values()].flat().filter(({ isTrained }) => isTrained);
    this.#slices = new Map(this.#trained.flatMap((unit) => ownedSlices(unit, options.offload !== "none")));
    const updated = new Map([...this.#slices].map(([name, slice]) => [name, slice.updated]));
    const inner = build(updated, (name) => isMatrix.get(name)!);
    this.#inner = inner;
    this.optimizer = {
      groups: inner.groups,
      step: () => this.#step(),
      zeroGrad: () => this.#zeroGrad(),
      stateDict: () => inner.stateDict(),
      loadStateDict: (state) => inner.loadStateDict(state),
      dispose: () => inner.dispose(),
    };
  }

  has(parameter: Parameter): boolean {
    for (const one of this.#parameters.values()) if (one === parameter) return true;
    return false;
  }

  /** Sums the gradients of a unit over all ranks, keeps this rank's part, and frees the rest. */
  reduceUnit(unit: FlatUnit, gradientOf: (parameter: Parameter) => Tensor | null = ({ grad }) => grad): void {
    noGrad(() =>
      tensorScope(() => {
        for (const { name, parameter } of unit.placed) if (gradientOf(parameter) !== null) this.#used.add(name);
        const whole = unit.flatten(gradientOf);
        const part = empty([unit.partLength], whole);
        unit.ranks.scatterSum(part, whole);
        whole.dispose();
        for (const { parameter } of unit.placed) parameter.grad = null;
        const sum = this.#gradients.get(unit);
        if (sum === undefined) this.#gradients.set(unit, keep(part));
        else sum.add_(part);
      }),
    );
  }

  async reduce(): Promise<void> {
    for (const unit of this.#trained) if (this.#options.zero < 2 || hasGradient(unit)) this.reduceUnit(unit);
    const used = this.#usedAnywhere();
    tensorScope(() => {
      for (const [name, { unit, offset, length, parameter }] of this.#slices) {
        const part = this.#gradients.get(unit)!.narrow(0, offset, length);
        if (!unit.isSplit) this.#mesh.tensor.reduce_(part);
        // To the host where the weights are.
        parameter.grad = used.has(name) ? part.toDevice(parameter.device) : null;
      }
    });
  }

  bound(some: readonly Parameter[], maxNorm: number): GradientBound {
    const wanted = new Set(some);
    const slices = [...this.#slices].filter(([name]) => wanted.has(this.#parameters.get(name)!)).map(([, one]) => one);
    const isCounted = ({ unit }: OwnedSlice) => unit.isSplit || this.#mesh.tensor.index === 0;
    const gradients = (list: readonly OwnedSlice[]) => list.flatMap(({ parameter }) => parameter.grad ?? []);
    const ranks = [this.#replicas, this.#mesh.tensor, this.#mesh.stages.ranks];
    const { device } = this.#options;
    const counted = gradients(slices.filter(isCounted));
    return tensorScope(() => ({ norm: clipOver(ranks, counted, gradients(slices), maxNorm, device), factor: null }));
  }

  parts(): StateParts {
    return slicesToSave(this.#sharded(), ({ isSplit }) => isSplit || this.#mesh.tensor.index === 0);
  }

  restore(saved: SavedState): void {
    restoreSlices(this.#sharded(), saved);
    for (const unit of this.#trained) unit.refresh();
  }

  #sharded(): ShardedParts {
    return { parameters: this.#parameters, slices: this.#slices, optimizer: this.#inner };
  }

  #step(): void {
    noGrad(() => {
      for (const { parameter, updated } of this.#slices.values()) {
        if (parameter === updated) continue;
        tensorScope(() => {
          updated.grad = parameter.grad?.toDevice("cpu") ?? null;
        });
      }
      this.#inner.step();
      for (const { parameter, updated } of this.#slices.values()) {
        updated.grad = null;
        if (parameter !== updated) parameter.copy_(updated);
      }
    });
    for (const unit of this.#trained) unit.refresh();
  }

  #zeroGrad(): void {
    for (const { parameter } of this.#trained.flatMap(({ placed }) => placed)) parameter.grad = null;
    for (const { parameter } of this.#slices.values()) parameter.grad = null;
    for (const gradient of this.#gradients.values()) gradient.dispose();
    this.#gradients.clear();
    this.#used.clear();
  }

  /** Parameters that had a gradient on some rank. The others, and what the optimizer knows of them, stay as they are. */
  #usedAnywhere(): ReadonlySet<string> {
    const isAtBothEnds = ({ placed }: FlatUnit) => placed[0]!.parameter.isAtBothEnds;
    const within = usedOn(this.#replicas, this.#trained, this.#used);
    return new Set([
      ...within,
      ...this.#trained.filter(isAtBothEnds).flatMap((unit) => [...usedOn(unit.ranks, [unit], within)]),
    ]);
  }
}

/** Those parameters of units that are used on some of the ranks. */
function usedOn(ranks: Collective, units: readonly FlatUnit[], used: ReadonlySet<string>): ReadonlySet<string> {
  const names = units.flatMap(({ placed }) => placed.map(({ name }) => name));
  return tensorScope(() => {
    const place = { dtype: "int32", device: units[0]!.device } as const;
    const flags = tensor(
      names.map((name) => Number(used.has(name))),
      place,
    );
    const values = ranks.reduce_(flags, "max").toArray();
    return new Set(names.filter((_, i) => values[i] === 1));
  });
}

function ownedSlices(unit: FlatUnit, isOnHost: boolean): [string, OwnedSlice][] {
  return [...unit.slices()].map(([name, { start, length, offset }]) => {
    const parameter = tensorScope(() => new Parameter(unit.own.narrow(0, offset, length)));
    const updated = isOnHost ? tensorScope(() => new Parameter(parameter.detach().toDevice("cpu").clone())) : parameter;
    return [name, { unit, start, offset, length, parameter, updated }];
  });
}

function hasGradient({ placed }: FlatUnit): boolean {
  return tensorScope(() => placed.some(({ parameter }) => parameter.grad !== null));
}

/** From parts of parameters that ranks own to whole ones, and back: what is saved does not depend on how it was cut. */
import { noGrad } from "../../torch/autograd.ts";
import { zeros } from "../../torch/create.ts";
import type { ProcessGroup } from "../../torch/distributed/process-group.ts";
import { partOf, wholeOf } from "../../torch/distributed/split.ts";
import type { DType } from "../../torch/dtype.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { exchangeData } from "./exchange-data.ts";
import type { FlatUnit } from "./flat-unit.ts";
import type { CollectedState, TrainedState } from "./parameter-set.ts";
import { nameOf } from "./whole-set.ts";

/** The part of a parameter that this rank owns: elements `start` to `start + length`, at `offset` of what it owns of the unit. */
export interface OwnedSlice {
  readonly unit: FlatUnit;
  readonly offset: number;
  readonly start: number;
  readonly length: number;
  readonly parameter: Parameter;
  /** What the optimizer updates: the slice itself, or a copy on the host. */
  readonly updated: Parameter;
}

export interface ShardedParts {
  readonly group: ProcessGroup | null;
  readonly parameters: NamedParameters;
  readonly units: readonly FlatUnit[];
  readonly slices: ReadonlyMap<string, OwnedSlice>;
  /** Knows the slices by the names of the parameters. */
  readonly optimizer: Optimizer;
}

/** Whole values in host memory, gathered for a unit at a time. Call it on all ranks. */
export async function collectShards(parts: ShardedParts): Promise<CollectedState> {
  const { group, units, slices, optimizer } = parts;
  const { tensors, numbers } = optimizer.stateDict();
  const own = [...tensors].map(([key, { dtype }]) => [key, dtype] as const);
  const all = await exchangeData(group, { numbers, known: own }, units[0]!.device);
  const dtypes = new Map(all.flatMap((one) => one.known));
  const kinds = [...new Set([...dtypes.keys()].map((key) => key.slice(0, key.indexOf("."))))].sort();
  const shelf = new Shelf();
  const parameters = units.flatMap((unit) => {
    const { dtype } = unit.own;
    const gather = () => wholes(parts, unit, dtype, (name) => slices.get(name)!.updated);
    return unit.placed.map(({ name }) => ({
      ...{ of: "parameters" as const, name, dtype, shape: wholeShape(parts, name) },
      gather: () => shelf.take(`parameter ${unit.placed[0]!.name}`, gather, name),
    }));
  });
  const states = units.flatMap((unit) =>
    kinds.flatMap((kind) => {
      const keyOf = (name: string) => `${kind}.${name}`;
      const known = unit.placed.filter(({ name }) => dtypes.has(keyOf(name)));
      const dtype = known.length === 0 ? "float32" : dtypes.get(keyOf(known[0]!.name))!;
      const gather = () => wholes(parts, unit, dtype, (name) => tensors.get(keyOf(name)) ?? null);
      return known.map(({ name }) => ({
        ...{ of: "optimizer" as const, name: keyOf(name), dtype, shape: wholeShape(parts, name) },
        gather: () => shelf.take(keyOf(unit.placed[0]!.name), gather, name),
      }));
    }),
  );
  const dispose = () => {
    shelf.clear();
    for (const value of tensors.values()) value.dispose();
  };
  return { tensors: [...parameters, ...states], numbers: Object.assign({}, ...all.map((one) => one.numbers)), dispose };
}

/** The tensors of one unit, until those of another are asked for. */
class Shelf {
  #key = "";
  #values: ReadonlyMap<string, Tensor> = new Map();

  take(key: string, gather: () => readonly (readonly [string, Tensor])[], name: string): Tensor {
    if (key !== this.#key) {
      this.clear();
      this.#values = new Map(gather());
      this.#key = key;
    }
    return this.#values.get(name)!;
  }

  clear(): void {
    for (const value of this.#values.values()) value.dispose();
    this.#values = new Map();
    this.#key = "";
  }
}

function wholeShape({ units, parameters }: ShardedParts, name: string): readonly number[] {
  const { shape } = units.flatMap(({ placed }) => placed).find((one) => one.name === name)!;
  const { shard } = parameters.get(name)!;
  if (shard === null) return shape;
  return shape.map((size, i) => (i === shard.dim ? shard.sizes.reduce((sum, one) => sum + one, 0) : size));
}

/** Puts this rank's part of everything in its place. */
export function restoreShards({ parameters, slices, optimizer }: ShardedParts, saved: TrainedState): void {
  noGrad(() =>
    tensorScope(() => {
      const sliceOf = (whole: Tensor, name: string, { start, length }: OwnedSlice) => {
        const { shard } = parameters.get(name)!;
        const part = shard === null ? whole : partOf(whole, shard);
        return part.reshape(-1).narrow(0, start, length);
      };
      for (const [name, slice] of slices) {
        const value = saved.parameters.get(name);
        if (value === undefined) continue;
        slice.parameter.copy_(sliceOf(value, name, slice));
        if (slice.updated !== slice.parameter) slice.updated.copy_(slice.parameter);
      }
      const own = [...saved.optimizer.tensors].flatMap(([key, value]) => {
        const slice = slices.get(nameOf(key));
        return slice === undefined ? [] : [[key, sliceOf(value, nameOf(key), slice)] as const];
      });
      const { numbers } = saved.optimizer;
      const steps = Object.entries(numbers).filter(([key]) => key.startsWith("step.") && slices.has(nameOf(key)));
      // The groups of this rank may be fewer; all have the rate of the schedule.
      const lrs = optimizer.groups.map((_, i) => [`lr.${i}`, numbers["lr.0"]!] as const);
      optimizer.loadStateDict({ tensors: new Map(own), numbers: Object.fromEntries([...steps, ...lrs]) });
    }),
  );
}

/** One value per parameter of a unit, whole, in host memory, from the slices that `pick` gives. */
function wholes(
  { parameters, slices }: ShardedParts,
  unit: FlatUnit,
  dtype: DType,
  pick: (name: string) => Tensor | null,
): readonly (readonly [string, Tensor])[] {
  return noGrad(() =>
    tensorScope(() => {
      const own = [...unit.slices()].map(([name]) => ({ ...slices.get(name)!, value: pick(name) }));
      const part = zeros([unit.partLength], { dtype, device: unit.device });
      for (const { offset, length, value } of own)
        if (value !== null) part.narrow(0, offset, length).copy_(value.detach());
      return unit.viewsOf(unit.gathered(part)).map(([name, view]) => {
        const { shard } = parameters.get(name)!;
        const whole = shard === null ? view : wholeOf(view.contiguous(), shard);
        return [name, keep(whole.toDevice("cpu").clone())] as const;
      });
    }),
  );
}

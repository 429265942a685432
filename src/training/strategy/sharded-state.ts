/** The stretches of parameters that a rank owns, to files and back: what is saved can be read however it is cut. */
import { noGrad } from "../../torch/autograd.ts";
import { cutOf } from "../../torch/distributed/split.ts";
import type { TensorPart } from "../../torch/distributed/tensor-part.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { FlatUnit } from "./flat-unit.ts";
import { nameOf, numbersFor, type SavedState, type StateParts } from "./parameter-set.ts";

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
  readonly parameters: NamedParameters;
  readonly slices: ReadonlyMap<string, OwnedSlice>;
  /** Knows the slices by the names of the parameters. */
  readonly optimizer: Optimizer;
}

/** What this rank saves. `isSaved` says of units whether this is the one of several ranks with the same slices that does. */
export function slicesToSave(sharded: ShardedParts, isSaved: (unit: FlatUnit) => boolean): StateParts {
  const { slices, optimizer } = sharded;
  const { tensors, numbers } = optimizer.stateDict();
  const saved = [...slices].filter(([, { unit }]) => isSaved(unit));
  const names = new Set(saved.map(([name]) => name));
  const known = [...tensors].filter(([key]) => names.has(nameOf(key)));
  const entry = (of: "parameters" | "optimizer", name: string, key: string, value: Tensor) => {
    const part = partOf(sharded, name);
    const shape = wholeShape(sharded, name);
    return {
      of,
      name: key,
      value: part.stretch === null ? value.detach().view(...shapeHere(sharded, name)) : value.detach(),
      part,
      shape,
    };
  };
  return {
    tensors: [
      ...saved.map(([name, { updated }]) => entry("parameters", name, name, updated)),
      ...known.map(([key, value]) => entry("optimizer", nameOf(key), key, value)),
    ],
    numbers,
  };
}

/** Puts this rank's part of everything in its place. */
export function restoreSlices(sharded: ShardedParts, saved: SavedState): void {
  const { slices, optimizer } = sharded;
  noGrad(() => {
    for (const [name, { parameter, updated }] of slices)
      if (saved.parameters.has(name))
        tensorScope(() => {
          parameter.copy_(saved.readParameter(name, partOf(sharded, name)).reshape(-1));
          if (updated !== parameter) updated.copy_(parameter);
        });
    tensorScope(() => {
      const own = [...saved.known].filter((key) => slices.has(nameOf(key)));
      const read = (key: string) => saved.readKnown(key, partOf(sharded, nameOf(key))).reshape(-1);
      const numbers = numbersFor(optimizer, saved, (name) => slices.has(name));
      optimizer.loadStateDict({ tensors: new Map(own.map((key) => [key, read(key)])), numbers });
    });
  });
}

/** Which part of a parameter is here. One that is all here is no stretch. */
function partOf(sharded: ShardedParts, name: string): TensorPart {
  const { shard } = sharded.parameters.get(name)!;
  const { start, length } = sharded.slices.get(name)!;
  const isAll = length === shapeHere(sharded, name).reduce((product, size) => product * size, 1);
  return { cut: shard && cutOf(shard), stretch: isAll ? null : { start, length } };
}

function shapeHere({ slices }: ShardedParts, name: string): readonly number[] {
  return slices.get(name)!.unit.placed.find((one) => one.name === name)!.shape;
}

function wholeShape(sharded: ShardedParts, name: string): readonly number[] {
  const { shard } = sharded.parameters.get(name)!;
  const here = shapeHere(sharded, name);
  if (shard === null) return here;
  return here.map((size, i) => (i === shard.dim ? shard.sizes.reduce((sum, one) => sum + one, 0) : size));
}

/** Every rank has all gradients and updates all parameters that it holds: data parallelism, over parts of layers where those are split. */
import { noGrad } from "../../torch/autograd.ts";
import { DataParallel } from "../../torch/distributed/data-parallel.ts";
import { cutOf, type Split } from "../../torch/distributed/split.ts";
import type { TensorPart } from "../../torch/distributed/tensor-part.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { boundGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type Mesh, replicasOf } from "./mesh.ts";
import { clipOver, nameOf, numbersFor, type ParameterSet } from "./parameter-set.ts";
import type { OptimizerBuild } from "./strategy.ts";

/** All ranks that hold the same parameters get the values of the first of them. */
export async function createWholeSet(
  mesh: Mesh,
  parameters: NamedParameters,
  build: OptimizerBuild,
  device: string,
): Promise<ParameterSet> {
  const { tensor, expert, stages } = mesh;
  // Either is alone: a layer is split, or its experts are dealt out.
  const splitters = tensor.count > 1 ? tensor : expert;
  const parallels: DataParallel[] = [];
  for (const group of new Set([...parameters.values()].map((parameter) => replicasOf(mesh, parameter)))) {
    const own = new Map([...parameters].filter(([, parameter]) => replicasOf(mesh, parameter) === group));
    if (group !== null) parallels.push(await DataParallel.create({ group, parameters: own }));
  }
  const optimizer = build(parameters);
  const trained = new Map([...parameters].filter(([, parameter]) => parameter.requiresGrad));
  const all = new Set(parameters.values());
  return {
    optimizer,
    has: (parameter) => all.has(parameter),
    reduce: async () => {
      for (const parallel of parallels) await parallel.reduceGradients();
      for (const parameter of tensor.count === 1 ? [] : trained.values())
        if (parameter.shard === null) tensorScope(() => parameter.grad && tensor.reduce_(parameter.grad));
    },
    bound: (some, maxNorm) => {
      if (splitters.count * stages.count === 1) return boundGradNorm(some, maxNorm);
      const gradients = (list: readonly Parameter[]) => list.flatMap(({ grad }) => grad ?? []);
      const counted = some.filter(
        ({ shard, isAtBothEnds }) => (shard !== null || splitters.index === 0) && (stages.isFirst || !isAtBothEnds),
      );
      const ranks = [splitters, stages.ranks];
      return tensorScope(() => ({
        norm: clipOver(ranks, gradients(counted), gradients(some), maxNorm, device),
        factor: null,
      }));
    },
    parts: () => {
      const { tensors, numbers } = optimizer.stateDict();
      const isSaved = (parameter: Parameter) =>
        (replicasOf(mesh, parameter)?.rank ?? 0) === 0 && (parameter.shard !== null || tensor.index === 0);
      const entry = (of: "parameters" | "optimizer", name: string, value: Tensor, { shard }: Parameter) => ({
        ...{ of, name, value: value.detach(), part: partHere(shard) },
        shape: value.shape.map((size, i) => (i === shard?.dim ? sumOf(shard.sizes) : size)),
      });
      const saved = [...trained].filter(([, parameter]) => isSaved(parameter));
      const names = new Set(saved.map(([name]) => name));
      const known = [...tensors].filter(([key]) => names.has(nameOf(key)));
      return {
        tensors: [
          ...saved.map(([name, parameter]) => entry("parameters", name, parameter, parameter)),
          ...known.map(([key, value]) => entry("optimizer", key, value, parameters.get(nameOf(key))!)),
        ],
        numbers,
      };
    },
    restore: (saved) =>
      noGrad(() => {
        for (const [name, parameter] of parameters)
          if (saved.parameters.has(name))
            tensorScope(() => void parameter.copy_(saved.readParameter(name, partHere(parameter.shard))));
        tensorScope(() => {
          const own = [...saved.known].filter((key) => parameters.has(nameOf(key)));
          const read = (key: string) => saved.readKnown(key, partHere(parameters.get(nameOf(key))!.shard));
          const numbers = numbersFor(optimizer, saved, (name) => parameters.has(name));
          optimizer.loadStateDict({ tensors: new Map(own.map((key) => [key, read(key)])), numbers });
        });
      }),
  };
}

function partHere(shard: Split | null): TensorPart {
  return { cut: shard && cutOf(shard), stretch: null };
}

function sumOf(sizes: readonly number[]): number {
  return sizes.reduce((sum, one) => sum + one, 0);
}

/** Every rank has all gradients and updates all parameters that it holds: data parallelism, over parts of layers where those are split. */
import { noGrad } from "../../torch/autograd.ts";
import { DataParallel } from "../../torch/distributed/data-parallel.ts";
import { partOf, type Split, wholeOf } from "../../torch/distributed/split.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { clipGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type Mesh, replicasOf } from "./mesh.ts";
import { clipOver, type ParameterSet } from "./parameter-set.ts";
import type { OptimizerBuild } from "./strategy.ts";

/** All ranks that hold the same parameters get the values of the first of them. */
export async function createWholeSet(
  mesh: Mesh,
  parameters: NamedParameters,
  build: OptimizerBuild,
): Promise<ParameterSet> {
  const { tensor, expert } = mesh;
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
    clip: (some, maxNorm) => {
      if (splitters.count === 1) return clipGradNorm(some, maxNorm);
      const gradients = (list: readonly Parameter[]) => list.flatMap(({ grad }) => grad ?? []);
      const counted = some.filter(({ shard }) => shard !== null || splitters.index === 0);
      return tensorScope(() => clipOver([splitters], gradients(counted), gradients(some), maxNorm, some[0]!.device));
    },
    collect: async () => {
      const { tensors, numbers } = optimizer.stateDict();
      const entry = (of: "parameters" | "optimizer", key: string, value: Tensor, shard: Split | null) => {
        const { dtype } = value;
        const length = shard?.sizes.reduce((sum, one) => sum + one, 0) ?? 0;
        const shape = value.shape.map((size, i) => (i === shard?.dim ? length : size));
        const gather = () => (shard === null ? value.detach() : wholeOf(value.detach(), shard));
        return { of, name: key, dtype, shape, gather };
      };
      const shardOf = (name: string) => parameters.get(name)?.shard ?? null;
      const values = [...trained].map(([name, one]) => entry("parameters", name, one, one.shard));
      const states = [...tensors].map(([key, value]) => entry("optimizer", key, value, shardOf(nameOf(key))));
      const dispose = () => {
        for (const value of tensors.values()) value.dispose();
      };
      return { tensors: [...values, ...states], numbers, dispose };
    },
    restore: ({ parameters: values, optimizer: { tensors, numbers } }) =>
      noGrad(() =>
        tensorScope(() => {
          const part = (value: Tensor, name: string) => {
            const shard = parameters.get(name)?.shard ?? null;
            return shard === null ? value : partOf(value, shard);
          };
          for (const [name, value] of values) parameters.get(name)!.copy_(part(value, name));
          const own = [...tensors].map(([key, value]) => [key, part(value, nameOf(key))] as const);
          optimizer.loadStateDict({ tensors: new Map(own), numbers });
        }),
      ),
  };
}

/** The parameter of a key of an optimizer's state: "<kind>.<name>". */
export function nameOf(key: string): string {
  return key.slice(key.indexOf(".") + 1);
}

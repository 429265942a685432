/** How the layers of a model run whose gradients (ZeRO 2) or weights (ZeRO 3) are sharded. */

import { type LayerRunner, residentLayers } from "../../models/causal-lm/layer-runner.ts";
import { applyFunction, enableGrad, gradients, isGradEnabled } from "../../torch/autograd.ts";
import { zeros } from "../../torch/create.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { FlatUnit } from "./flat-unit.ts";
import type { ShardedSet, UnitsByLayer } from "./sharded-set.ts";

/** Layers that are all here. Their gradients are summed and cut when the backward pass leaves them. */
export function layersWithShardedGradients(set: ShardedSet): LayerRunner {
  return {
    ...residentLayers,
    run: (index, layer, x, options) => {
      const units = set.units.get(index) ?? [];
      // A step of the graph below the layer: everything of the layer has its gradient when this one is asked for its own.
      const [start] = applyFunction(
        {
          forward: ([value]) => ({ outputs: [value!], saved: [] }),
          backward: ([gradient]) => {
            for (const unit of units) set.reduceUnit(unit);
            return [gradient!];
          },
        },
        [x],
      );
      return residentLayers.run(index, layer, start!, options);
    },
  };
}

/** Layers that are gathered when they run, and computed again in the backward pass. `set` takes the gradients; null for a frozen model. */
export function shardedLayers(units: UnitsByLayer, set: ShardedSet | null): LayerRunner {
  // Ties layers to the graph whose input needs no gradient: with adapters nothing below the first one does.
  const anchor = keep(zeros([1]));
  anchor.requiresGrad = true;
  const withUnits = <Result>(list: readonly FlatUnit[], body: () => Result): Result => {
    for (const unit of list) unit.gather();
    try {
      return body();
    } finally {
      for (const unit of list) unit.release();
    }
  };
  const unitsOf = (index: number | null) => units.get(index) ?? [];
  const backward = (list: readonly FlatUnit[], layer: (x: Tensor) => Tensor, input: Tensor, gradient: Tensor) => {
    const trained = list.filter(({ isTrained }) => isTrained);
    const parameters = trained.flatMap(({ placed }) => placed.map((one) => one.parameter));
    const start = input.detach();
    start.requiresGrad = true;
    const again = enableGrad(() => layer(start));
    const [first, ...others] = gradients([again], [start, ...parameters], { gradOutputs: [gradient] });
    const gradientOf = new Map<Parameter, Tensor | null>(parameters.map((one, i) => [one, others[i]!]));
    for (const unit of trained) set!.reduceUnit(unit, (parameter) => gradientOf.get(parameter) ?? null);
    return first ?? null;
  };
  return {
    isResident: false,
    begin: () => {
      for (const unit of unitsOf(null)) unit.gather();
    },
    run: (index, layer, x) => {
      const list = unitsOf(index);
      if (!isGradEnabled()) return withUnits(list, () => layer(x));
      const [out] = applyFunction(
        {
          forward: ([value]) => ({
            outputs: [withUnits(list, () => tensorScope(() => layer(value!)))],
            saved: [value!],
          }),
          backward: ([gradient], [input]) => [
            withUnits(list, () => tensorScope(() => backward(list, layer, input!, gradient!))),
            null,
          ],
        },
        [x, anchor],
      );
      return out!;
    },
    withWeights: (index, body) => {
      if (index !== null) return withUnits(unitsOf(index), body);
      for (const unit of unitsOf(null)) unit.gather();
      return body();
    },
  };
}

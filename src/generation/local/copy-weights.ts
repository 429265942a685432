/** New weights into a model that an engine runs: all of them or none. */
import { RerollError } from "../../errors/reroll-error.ts";
import { takeAdapters } from "../../models/causal-lm/adapter-weights.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { isQuantized } from "../../models/causal-lm/quantize-model.ts";
import { namedWeights, writeWeight } from "../../models/causal-lm/weight-names.ts";
import { noGrad } from "../../torch/autograd.ts";
import { partFor } from "../../torch/distributed/split.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/**
 * Copies weights by their Hugging Face names, converting to the model's type and device. Every weight of the model must
 * be there, in its shape, and no other; that is checked before the first is written. A model with quantized weights keeps them and takes
 * adapters: see adapterWeights.
 */
export function copyWeights(model: CausalLm, weights: ReadonlyMap<string, Tensor>): void {
  if (isQuantized(model)) {
    takeAdapters(model, weights);
    return;
  }
  tensorScope(() =>
    noGrad(() => {
      const all = namedWeights(model);
      const targets = all.flatMap((weight) => {
        const { name, parameter, viewOf, isElsewhere = false } = weight;
        return isElsewhere ? [] : [{ name, weight, target: viewOf(parameter.detach()), shard: parameter.shard }];
      });
      const known = new Set(all.map(({ name }) => name));
      const unknown = [...weights.keys()].filter((name) => !known.has(name));
      if (unknown.length > 0) throw mismatch(`has no weight "${unknown[0]}"`, unknown.length);
      const missing = targets.filter(({ name }) => !weights.has(name));
      if (missing.length > 0) throw mismatch(`got no weight "${missing[0]!.name}"`, missing.length);
      const partOf = ({ name, target, shard }: (typeof targets)[number]) => partFor(target, weights.get(name)!, shard);
      for (const one of targets) expectShape(one.name, partOf(one).shape, one.target.shape);
      for (const one of targets) writeWeight(one.weight, partOf(one));
    }),
  );
}

function mismatch(what: string, count: number): RerollError {
  const others = count > 1 ? ` and ${count - 1} more` : "";
  return new RerollError(
    "WEIGHTS_MISMATCH",
    `The engine's model ${what}${others}. Send all weights by their Hugging Face names: see namedWeights.`,
  );
}

function expectShape(name: string, got: readonly number[], wanted: readonly number[]): void {
  if (`${got}` === `${wanted}`) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `Weight "${name}" has shape [${got.join(", ")}]; the engine's model has [${wanted.join(", ")}].`,
  );
}

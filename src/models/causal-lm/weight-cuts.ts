/** The part of each weight that a rank of an engine has, as plain data: whoever sends weights to it cuts them, so that it gets no more. */
import { type Cut, cutFor, cutOf, partOf } from "../../torch/distributed/split.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { namedWeights } from "./weight-names.ts";

/** By Hugging Face name: a cut, or null for a weight that other ranks have. What is not named is whole. */
export type WeightCuts = ReadonlyMap<string, Cut | null>;

/** The cuts of a model that is spread over ranks; none of one that is all here. */
export function weightCuts(model: CausalLm): WeightCuts {
  const cuts = new Map<string, Cut | null>();
  tensorScope(() => {
    for (const { name, parameter, viewOf, isElsewhere = false } of namedWeights(model)) {
      const { shard } = parameter;
      // An expert that is dealt out is whole where it is.
      const isCut = shard !== null && shard.ranks !== model.spread.expert;
      if (isElsewhere) cuts.set(name, null);
      else if (isCut) cuts.set(name, cutOf(cutFor(viewOf(parameter.detach()), parameter.shape.length, shard)));
    }
  });
  return cuts;
}

/** The parts of whole weights that such a rank has. Views, and copies where a part lies in several places: call it in a `tensorScope`. */
export function cutWeights(weights: ReadonlyMap<string, Tensor>, cuts: WeightCuts): ReadonlyMap<string, Tensor> {
  return new Map(
    [...weights].flatMap(([name, whole]) => {
      const cut = cuts.get(name);
      if (cut === null) return [];
      return [[name, cut === undefined ? whole : partOf(whole, cut)] as const];
    }),
  );
}

/** Forward passes over the rows of a grid: what a model says about the tokens that were sampled. */

import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { tokenLogprobs } from "../models/causal-lm/token-logprobs.ts";
import type { ValueHead } from "../models/causal-lm/value-head.ts";
import { noGrad } from "../torch/autograd.ts";
import { cat, tensor } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { type Grid, type PackedTokens, packTokens, type RowTokens, toGrid } from "./token-rows.ts";

interface PolicyOptions {
  /** The temperature the tokens were sampled with, so that both log-probs are of the same distribution. */
  readonly temperature: number;
  /** Compute activations again in the backward pass instead of keeping them. */
  readonly recompute: boolean;
  /**
   * Scores that count, from the first. A teacher or reference may have more than the policy, which pad its vocabulary: they would take
   * probability from tokens that are there. Default: all.
   */
  readonly numScores?: number;
}

export interface MeasuredPolicy {
  readonly logprobs_BT: Tensor;
  readonly entropies_BT: Tensor;
}

/** Log-probabilities and entropies at loss tokens; zero elsewhere. With gradient where there is one. */
export function measurePolicy(
  model: CausalLm,
  packed: PackedTokens,
  options: PolicyOptions,
): MeasuredPolicy & { readonly hidden_ND: Tensor } {
  const { temperature, recompute, numScores = Infinity } = options;
  const hidden_ND = hiddenBefore(model, packed, recompute);
  const head = model.head.size(0) > numScores ? model.head.narrow(0, 0, numScores) : model.head;
  const { logprobs_S, entropy_S } = tokenLogprobs(hidden_ND, head, packed.targets_N, {
    temperature,
    softCap: model.softCap,
  });
  return { logprobs_BT: toGrid(logprobs_S, packed), entropies_BT: toGrid(entropy_S, packed), hidden_ND };
}

/** The last hidden states in front of the loss tokens. */
export function hiddenBefore(model: CausalLm, packed: PackedTokens, recompute = false): Tensor {
  return model.forward(packed.ids_S, packed.layout, { recompute }).indexSelect(0, packed.before_N);
}

/** A critic: a decoder of its own and the head on it. */
export interface Critic {
  readonly model: CausalLm;
  readonly head: ValueHead;
}

interface MeasuredValues {
  /** Before each loss token; zero elsewhere. */
  readonly values_BT: Tensor;
  /** After the last token. */
  readonly bootstrap_B: Tensor;
}

export function measureValues({ model, head }: Critic, packed: PackedTokens, recompute: boolean): MeasuredValues {
  const hidden_SD = model.forward(packed.ids_S, packed.layout, { recompute });
  const values_S = head.forward(hidden_SD);
  return {
    values_BT: toGrid(values_S.indexSelect(0, packed.before_N), packed),
    bootstrap_B: values_S.indexSelect(0, packed.last_B),
  };
}

/**
 * Runs a measurement without gradient over some rows, part by part, and joins what the parts give in the order of the rows. At
 * least one row.
 */
export function measureAll<Name extends string>(
  grid: Grid<RowTokens>,
  rows: readonly number[],
  parts: readonly (readonly number[])[],
  device: Device,
  measure: (packed: PackedTokens, rows: readonly number[]) => Readonly<Record<Name, Tensor>>,
): Readonly<Record<Name, Tensor>> {
  return noGrad(() =>
    tensorScope(() => {
      const measured = parts.map((part) => tensorScope(() => measure(packTokens(grid, part, device), part)));
      const names = Object.keys(measured[0]!) as Name[];
      const join = (name: Name) =>
        joinParts(
          measured.map((values) => values[name]),
          parts,
          rows,
        );
      return Object.fromEntries(names.map((name) => [name, join(name)])) as Record<Name, Tensor>;
    }),
  );
}

/** What the parts gave for their rows, in the order of `rows`. */
export function joinParts(
  values: readonly Tensor[],
  parts: readonly (readonly number[])[],
  rows: readonly number[],
): Tensor {
  const joined = cat([...values]);
  const placeOf = new Map(parts.flat().map((row, place) => [row, place]));
  const places = rows.map((row) => placeOf.get(row)!);
  if (places.every((place, i) => place === i)) return joined;
  return joined.indexSelect(0, tensor(places, { dtype: "int64", device: joined.device }));
}

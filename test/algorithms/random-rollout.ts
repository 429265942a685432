/** Random rollouts and policy outputs for property tests: ragged groups, observation tokens, empty rows, bad padding. */

import { toLastToken } from "../../src/algorithms/advantages/token-values.ts";
import type { TokenBatch } from "../../src/flow/token-batch.ts";
import { onesLike, rand, randn, tensor } from "../../src/torch/create.ts";
import { Generator } from "../../src/torch/random.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** All that any recipe may ask for, in float64. */
export interface RandomRollout {
  readonly batch: Required<TokenBatch>;
  readonly outputs: PolicyOutputs;
}

export interface PolicyOutputs {
  readonly policyLogprobs_BT: Tensor;
  readonly entropies_BT: Tensor;
  readonly values_BT: Tensor;
}

/** A rollout with the given group sizes, in [numGroups][size] order; everything else is drawn from the seed. */
export function randomRollout(seed: number, groupSizes: readonly number[], T: number): RandomRollout {
  const generator = new Generator(seed);
  const groupOf = groupSizes.flatMap((size, group) => new Array<number>(size).fill(7 * group + 3));
  const B = groupOf.length;
  const normal = (scale: number) => randn([B, T], { dtype: "float64", generator }).mul(scale);
  const uniform_B = () => rand([B], { dtype: "float64", generator });
  const lossMask_BT = randomMask(B, T, generator);
  // What is outside of the mask must never be read.
  const spoil = (values_BT: Tensor) => values_BT.where(lossMask_BT, Number.NaN);

  const sampler_BT = normal(0.5).sub(1.5);
  const anchor_BT = sampler_BT.add(normal(0.2));
  const successes_B = uniform_B().gt(0.5).to("float64");
  const turnReward_BT = rand([B, T], { dtype: "float64", generator }).mul(0.2);
  const rows = Array.from({ length: B }, (_, row) => row);
  return {
    batch: {
      samplerLogprobs_BT: spoil(sampler_BT),
      anchorLogprobs_BT: spoil(anchor_BT),
      referenceLogprobs_BT: spoil(anchor_BT.add(normal(0.3))),
      values_BT: spoil(normal(0.4)),
      bootstrapValues_B: uniform_B(),
      rewards_BT: toLastToken(successes_B, lossMask_BT).add(turnReward_BT),
      greedyRewards_B: uniform_B(),
      rowWeights_B: uniform_B(),
      lossMask_BT,
      groupOf,
      isTruncated: uniform_B()
        .toArray()
        .map((value) => value < 0.2),
      versions: {
        versions_BT: rand([B, T], { dtype: "float64", generator }).mul(4).floor().to("int64"),
        current: 4,
      },
      steps: {
        trajectoryOf: rows.map((row) => Math.floor(row / 2)),
        turnOf: rows,
        stateOf: uniform_B()
          .toArray()
          .map((value) => (value < 0.5 ? "start" : "door")),
      },
    },
    outputs: {
      policyLogprobs_BT: leaf(spoil(anchor_BT.add(normal(0.25)))),
      entropies_BT: leaf(spoil(normal(0.3).abs())),
      values_BT: leaf(spoil(normal(0.5))),
    },
  };
}

/** The same rollout with its rows in another order: row i of the result is row order[i]. */
export function reorder({ batch, outputs }: RandomRollout, order: readonly number[]): RandomRollout {
  const index_B = tensor([...order], { dtype: "int64" });
  const pick = (values: Tensor): Tensor => values.indexSelect(0, index_B);
  const pickEach = <Item>(items: readonly Item[]): Item[] => order.map((row) => items[row]!);
  return {
    batch: {
      samplerLogprobs_BT: pick(batch.samplerLogprobs_BT),
      anchorLogprobs_BT: pick(batch.anchorLogprobs_BT),
      referenceLogprobs_BT: pick(batch.referenceLogprobs_BT),
      values_BT: pick(batch.values_BT),
      bootstrapValues_B: pick(batch.bootstrapValues_B),
      rewards_BT: pick(batch.rewards_BT),
      greedyRewards_B: pick(batch.greedyRewards_B),
      rowWeights_B: pick(batch.rowWeights_B),
      lossMask_BT: pick(batch.lossMask_BT),
      groupOf: pickEach(batch.groupOf),
      isTruncated: pickEach(batch.isTruncated),
      versions: { versions_BT: pick(batch.versions.versions_BT), current: batch.versions.current },
      steps: {
        trajectoryOf: pickEach(batch.steps.trajectoryOf),
        turnOf: pickEach(batch.steps.turnOf),
        stateOf: pickEach(batch.steps.stateOf),
      },
    },
    outputs: {
      policyLogprobs_BT: leaf(pick(outputs.policyLogprobs_BT)),
      entropies_BT: leaf(pick(outputs.entropies_BT)),
      values_BT: leaf(pick(outputs.values_BT)),
    },
  };
}

/** Replies of random length, with single observation tokens in them; some rows are empty. */
function randomMask(B: number, T: number, generator: Generator): Tensor {
  const lengths_B = rand([B], { dtype: "float64", generator })
    .mul(T + 1)
    .floor();
  const positions_T = onesLike(rand([T], { dtype: "float64" })).cumsum(0);
  const isReply_BT = positions_T.unsqueeze(0).le(lengths_B.unsqueeze(1));
  return isReply_BT.logicalAnd(rand([B, T], { dtype: "float64", generator }).gt(0.2));
}

function leaf(values_BT: Tensor): Tensor {
  const copy_BT = values_BT.detach().clone();
  copy_BT.requiresGrad = true;
  return copy_BT;
}

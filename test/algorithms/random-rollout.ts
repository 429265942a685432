/**
 * Random rollouts and policy outputs for property tests: ragged groups, forked trajectories, observation tokens, empty rows, bad
 * padding.
 */

import { toLastToken } from "../../src/algorithms/advantages/token-values.ts";
import type { TokenBatch } from "../../src/flow/token-batch.ts";
import { cat, onesLike, rand, randn, tensor, zeros } from "../../src/torch/create.ts";
import { Generator } from "../../src/torch/random.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** All that any recipe may ask for, in float64. */
export interface RandomRollout {
  readonly batch: Required<Omit<TokenBatch, "teaching">>;
  readonly outputs: PolicyOutputs;
}

export interface PolicyOutputs {
  readonly policyLogprobs_BT: Tensor;
  readonly entropies_BT: Tensor;
  readonly values_BT: Tensor;
}

/**
 * A rollout with the given group sizes in rows, in [numGroups][size] order; everything else is drawn from the seed. Two rows of a
 * group at a time are one trajectory, or every row is one.
 */
export function randomRollout(
  seed: number,
  groupSizes: readonly number[],
  T: number,
  rowsPerTrajectory: 1 | 2 = 2,
): RandomRollout {
  const generator = new Generator(seed);
  const groupOf = groupSizes.flatMap((size, group) => new Array<number>(size).fill(7 * group + 3));
  const B = groupOf.length;
  const trajectoryOf = groupSizes.flatMap((size, group) =>
    Array.from({ length: size }, (_, i) => 100 * group + Math.floor(i / rowsPerTrajectory)),
  );
  // The rows of a trajectory share its fate: its weight, its end, the greedy reply to its prompt.
  const firstRow = tensor(
    trajectoryOf.map((trajectory) => trajectoryOf.indexOf(trajectory)),
    { dtype: "int64" },
  );
  const normal = (scale: number) => randn([B, T], { dtype: "float64", generator }).mul(scale);
  const uniform_B = () => rand([B], { dtype: "float64", generator });
  const uniformByTrajectory_B = () => uniform_B().indexSelect(0, firstRow);
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
      greedyOf: uniformByTrajectory_B()
        .toArray()
        .map((reward) => ({ rewards: [reward], numTokens: 3, isTruncated: reward < 0.2 })),
      rowWeights_B: uniformByTrajectory_B(),
      lossMask_BT,
      groupOf,
      isTruncated: uniformByTrajectory_B()
        .toArray()
        .map((value) => value < 0.2),
      versions: {
        versions_BT: rand([B, T], { dtype: "float64", generator }).mul(4).floor().to("int64"),
        current: 4,
      },
      trajectoryOf,
      turnOf: rows,
      stateOf: uniform_B()
        .toArray()
        .map((value) => (value < 0.5 ? "start" : "door")),
      domainOf: trajectoryOf.map((trajectory) => (trajectory % 2 === 0 ? "math" : "code")),
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
      anchorLogprobs_BT: pick(batch.anchorLogprobs_BT!),
      referenceLogprobs_BT: pick(batch.referenceLogprobs_BT),
      values_BT: pick(batch.values_BT),
      bootstrapValues_B: pick(batch.bootstrapValues_B),
      rewards_BT: pick(batch.rewards_BT),
      greedyOf: pickEach(batch.greedyOf),
      rowWeights_B: pick(batch.rowWeights_B),
      lossMask_BT: pick(batch.lossMask_BT),
      groupOf: pickEach(batch.groupOf),
      isTruncated: pickEach(batch.isTruncated),
      versions: { versions_BT: pick(batch.versions.versions_BT), current: batch.versions.current },
      trajectoryOf: pickEach(batch.trajectoryOf),
      turnOf: pickEach(batch.turnOf),
      stateOf: pickEach(batch.stateOf),
      domainOf: pickEach(batch.domainOf),
    },
    outputs: {
      policyLogprobs_BT: leaf(pick(outputs.policyLogprobs_BT)),
      entropies_BT: leaf(pick(outputs.entropies_BT)),
      values_BT: leaf(pick(outputs.values_BT)),
    },
  };
}

/**
 * The same rollout with every row forked at some of the gaps between its turns: rows that start anew, at column 0, and one more
 * without a single loss token. `cells` are the places on the grid of the rollout that the new ones came from.
 */
export function fork(
  { batch, outputs }: RandomRollout,
  isCut: (place: number) => boolean,
): RandomRollout & { readonly cells: readonly number[] } {
  const [B, T] = [batch.lossMask_BT.size(0), batch.lossMask_BT.size(1)];
  const mask = batch.lossMask_BT.toArray();
  const rows = Array.from({ length: B }, (_, row) => cutRow(row, T, mask, isCut)).flat();
  const cells = rows.flatMap(({ row, start, stop }) =>
    Array.from({ length: T }, (_, t) => (start + t < stop ? row * T + start + t : B * T)),
  );
  const index_B = tensor(
    rows.map(({ row }) => row),
    { dtype: "int64" },
  );
  const cells_N = tensor(cells, { dtype: "int64" });
  const move = (values_BT: Tensor): Tensor =>
    cat([values_BT.flatten(), zeros([1], { dtype: values_BT.dtype })])
      .indexSelect(0, cells_N)
      .view(rows.length, T);
  const pick = (values_B: Tensor): Tensor => values_B.indexSelect(0, index_B);
  const pickEach = <Item>(items: readonly Item[]): Item[] => rows.map(({ row }) => items[row]!);
  // Values after rows that are not the last of their trajectory must never be read.
  const isLast_B = tensor(
    rows.map(({ stop }) => Number(stop === T)),
    { dtype: "bool" },
  );
  return {
    batch: {
      samplerLogprobs_BT: move(batch.samplerLogprobs_BT),
      anchorLogprobs_BT: move(batch.anchorLogprobs_BT!),
      referenceLogprobs_BT: move(batch.referenceLogprobs_BT),
      values_BT: move(batch.values_BT),
      bootstrapValues_B: pick(batch.bootstrapValues_B).where(isLast_B, 99),
      rewards_BT: move(batch.rewards_BT),
      greedyOf: pickEach(batch.greedyOf),
      rowWeights_B: pick(batch.rowWeights_B),
      lossMask_BT: move(batch.lossMask_BT),
      groupOf: pickEach(batch.groupOf),
      trajectoryOf: pickEach(batch.trajectoryOf),
      turnOf: rows.map(({ turn }) => turn),
      stateOf: pickEach(batch.stateOf),
      domainOf: pickEach(batch.domainOf),
      isTruncated: pickEach(batch.isTruncated),
      versions: { versions_BT: move(batch.versions.versions_BT), current: batch.versions.current },
    },
    outputs: {
      policyLogprobs_BT: leaf(move(outputs.policyLogprobs_BT)),
      entropies_BT: leaf(move(outputs.entropies_BT)),
      values_BT: leaf(move(outputs.values_BT)),
    },
    cells,
  };
}

interface Piece {
  readonly row: number;
  readonly turn: number;
  readonly start: number;
  readonly stop: number;
}

function cutRow(row: number, T: number, mask: readonly number[], isCut: (place: number) => boolean): Piece[] {
  const isGap = (t: number) => mask[row * T + t - 1] === 0 || mask[row * T + t] === 0;
  const cuts = Array.from({ length: T - 1 }, (_, t) => t + 1).filter((t) => isGap(t) && isCut(row * T + t));
  const starts = [0, ...cuts];
  const pieces = starts.map((start, i) => ({ row, turn: 2 * i, start, stop: starts[i + 1] ?? T }));
  const [{ stop }] = pieces as [Piece];
  return [...pieces, ...(stop < T ? [{ row, turn: 1, start: stop, stop }] : [])];
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

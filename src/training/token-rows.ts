/**
 * Samples as tensors: constants of a batch on a [B, T] grid, and packed tokens for a forward pass.
 *
 * Column t of row b is token `start_b + t`, where `start_b` is the first loss token of the sample: prompts take no room on the
 * grid. What a forward pass gives for chosen tokens is put at their cells.
 */
import { packRows } from "../experience/pack-rows.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import { packedLayout, type TokenLayout } from "../models/causal-lm/token-layout.ts";
import { tensor, zeros } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import type { Tensor } from "../torch/tensor.ts";

/** The tokens of a row, and which of them count. */
export type RowTokens = Pick<TokenSample, "tokenIds" | "lossMask">;

/** The places of a batch on its grid. */
export interface Grid<Row extends RowTokens = TokenSample> {
  readonly samples: readonly Row[];
  /** Per row, the token of column 0. */
  readonly starts: readonly number[];
  readonly numColumns: number;
  /** Per row, the first row with the same tokens. Those go through the model once. */
  readonly twins: readonly number[];
}

export function gridOf<Row extends RowTokens>(samples: readonly Row[]): Grid<Row> {
  const starts = samples.map(({ lossMask }) => Math.max(1, lossMask.indexOf(1)));
  const numColumns = samples.reduce((most, { tokenIds }, row) => Math.max(most, tokenIds.length - starts[row]!), 1);
  return { samples, starts, numColumns, twins: findTwins(samples) };
}

/** Short episodes of one prompt often write the same thing: what a model says about equal tokens is equal. */
function findTwins(samples: readonly RowTokens[]): readonly number[] {
  const firstOf = new Map<string, number>();
  return samples.map(({ tokenIds }, row) => {
    const { buffer, byteOffset, byteLength } = tokenIds;
    const key = Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
    const first = firstOf.get(key);
    if (first === undefined) firstOf.set(key, row);
    return first ?? row;
  });
}

/**
 * Parts of these rows for one forward pass each: at most `maxTokens` different tokens, twins together.
 *
 * @param lengthOf tokens of a row, where more go through a model than the grid holds
 */
export function forwardParts(
  { samples, twins }: Grid<RowTokens>,
  rows: readonly number[],
  maxTokens: number,
  lengthOf = (row: number) => samples[row]!.tokenIds.length,
): readonly (readonly number[])[] {
  const families = new Map<number, number[]>();
  for (const row of rows) {
    const family = families.get(twins[row]!);
    if (family === undefined) families.set(twins[row]!, [row]);
    else family.push(row);
  }
  const members = [...families.values()];
  const lengths = members.map((family) => family.reduce((most, row) => Math.max(most, lengthOf(row)), 0));
  return packRows(lengths, maxTokens).map((picks) => picks.flatMap((pick) => members[pick]!));
}

/** The parts of a batch that are known before any forward pass. */
interface GridConstants {
  readonly lossMask_BT: Tensor;
  readonly samplerLogprobs_BT: Tensor;
  readonly rewards_BT: Tensor;
  readonly versions_BT: Tensor;
  /** The loss tokens that were drawn on keys and values of older weights; null where there are none. */
  readonly onOldCache_BT: Tensor | null;
}

export function gridConstants(grid: Grid, device: Device): GridConstants {
  const { samples, starts, numColumns } = grid;
  const fill = <Values extends Float32Array | Int32Array | Uint8Array>(
    values: Values,
    pick: (sample: TokenSample) => Values,
  ): Values => {
    samples.forEach((sample, row) => {
      values.set(pick(sample).subarray(starts[row]!), row * numColumns);
    });
    return values;
  };
  const size = samples.length * numColumns;
  const shape = [samples.length, numColumns];
  const mask = fill(new Uint8Array(size), (sample) => sample.lossMask);
  const versions = fill(new Int32Array(size), (sample) => sample.versions);
  return {
    lossMask_BT: tensor(mask, shape, { device }).to("bool"),
    samplerLogprobs_BT: tensor(
      fill(new Float32Array(size), (sample) => sample.samplerLogprobs),
      shape,
      { device },
    ),
    rewards_BT: tensor(
      fill(new Float32Array(size), (sample) => sample.rewards),
      shape,
      { device },
    ),
    versions_BT: tensor(versions, shape, { device }).to("int64"),
    onOldCache_BT: samples.every(({ onOldCache }) => onOldCache === undefined)
      ? null
      : tensor(
          fill(new Uint8Array(size), ({ onOldCache = new Uint8Array() }) => onOldCache),
          shape,
          { device },
        ).to("bool"),
  };
}

/** Some rows of a grid, packed for one forward pass. */
export interface PackedTokens {
  readonly ids_S: Tensor;
  readonly layout: TokenLayout;
  /** The packed tokens behind which a loss token comes, and that loss token. */
  readonly before_N: Tensor;
  readonly targets_N: Tensor;
  /** The loss tokens' places on the flattened grid of these rows. */
  readonly cells_N: Tensor;
  /** The last token of each row among the packed ones. */
  readonly last_B: Tensor;
  readonly numRows: number;
  readonly numColumns: number;
}

export function packTokens(grid: Grid<RowTokens>, rows: readonly number[], device: Device): PackedTokens {
  const { samples, starts, numColumns, twins } = grid;
  const { ids, lengths, offsets } = joinDistinct(grid, rows);
  // Typed arrays of the most there can be: lists that grow by a number per token took longer than the forward pass of a small model.
  const mostTokens = rows.reduce((sum, row) => sum + samples[row]!.tokenIds.length, 0);
  const before = new Int32Array(mostTokens);
  const targets = new Int32Array(mostTokens);
  const cells = new Int32Array(mostTokens);
  const last = new Int32Array(rows.length);
  let n = 0;
  rows.forEach((row, i) => {
    const { tokenIds, lossMask } = samples[row]!;
    const offset = offsets.get(twins[row]!)!;
    const start = starts[row]!;
    for (let t = start; t < tokenIds.length; t++) {
      if (lossMask[t] === 0) continue;
      before[n] = offset + t - 1;
      targets[n] = tokenIds[t]!;
      cells[n++] = i * numColumns + t - start;
    }
    last[i] = offset + tokenIds.length - 1;
  });
  const index = (values: Int32Array) => tensor(values, [values.length], { device, dtype: "int64" });
  return {
    ids_S: index(ids),
    layout: packedLayout(lengths, device),
    before_N: index(before.subarray(0, n)),
    targets_N: index(targets.subarray(0, n)),
    cells_N: index(cells.subarray(0, n)),
    last_B: index(last),
    numRows: rows.length,
    numColumns,
  };
}

/** The tokens of these rows end to end, twins once, and where those of each family start. */
function joinDistinct({ samples, twins }: Grid<RowTokens>, rows: readonly number[]) {
  const families = [...new Set(rows.map((row) => twins[row]!))];
  const lengths = families.map((row) => samples[row]!.tokenIds.length);
  const ids = new Int32Array(lengths.reduce((sum, length) => sum + length, 0));
  const offsets = new Map<number, number>();
  let offset = 0;
  for (const row of families) {
    offsets.set(row, offset);
    ids.set(samples[row]!.tokenIds, offset);
    offset += samples[row]!.tokenIds.length;
  }
  return { ids, lengths, offsets };
}

/** Values of loss tokens at their cells; zero everywhere else. Differentiable. */
export function toGrid(
  values_N: Tensor,
  { cells_N, numRows, numColumns }: Pick<PackedTokens, "cells_N" | "numRows" | "numColumns">,
): Tensor {
  const empty = zeros([numRows * numColumns], { dtype: values_N.dtype, device: values_N.device });
  return empty.scatter(0, cells_N, values_N).view(numRows, numColumns);
}

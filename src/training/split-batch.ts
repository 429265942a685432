/** Which rows of a batch each rank measures and trains on, and how what ranks measured becomes whole again. */
import { cat, tensor, zeros } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { joinParts } from "./measure-rows.ts";
import type { Strategy } from "./strategy/strategy.ts";
import { forwardParts, type Grid, type RowTokens } from "./token-rows.ts";

/**
 * The rows of each rank, spread so that the ranks have about equally many tokens: the longest go first, each to the rank with the
 * fewest. Rows with the same tokens stay together, since they go through a model once. All ranks make the same plan from the same batch; a
 * rank may have none.
 */
export function rowsByRank({ samples, twins }: Pick<Grid<RowTokens>, "samples" | "twins">, numRanks: number) {
  const loads = new Array<number>(numRanks).fill(0);
  const rankOf = new Map<number, number>();
  const lengthOf = (row: number) => samples[row]!.tokenIds.length;
  for (const row of [...new Set(twins)].sort((a, b) => lengthOf(b) - lengthOf(a) || a - b)) {
    const lightest = loads.indexOf(Math.min(...loads));
    loads[lightest]! += lengthOf(row);
    rankOf.set(row, lightest);
  }
  const rows: number[][] = loads.map(() => []);
  for (const row of samples.keys()) rows[rankOf.get(twins[row]!)!]!.push(row);
  return rows as readonly (readonly number[])[];
}

/** Those of `rows` that are among `some`, in their order. */
export function intersect(rows: readonly number[], some: readonly number[]): readonly number[] {
  const isOne = new Set(some);
  return rows.filter((row) => isOne.has(row));
}

interface PassLimits {
  readonly kind: "measure" | "update";
  readonly maxTokens: number;
  readonly lengthOf?: (row: number) => number;
}

/** The rows of each forward pass of this rank: `numOwn` over its own rows, then those that others need and it does not. */
export function passesOf(
  strategy: Strategy,
  grid: Grid<RowTokens>,
  shares: readonly (readonly number[])[],
  { kind, maxTokens, lengthOf }: PassLimits,
): { readonly parts: readonly (readonly number[])[]; readonly numOwn: number } {
  const all = shares.map((rows) => forwardParts(grid, rows, maxTokens, lengthOf));
  const own = all[strategy.rank]!;
  const counts = all.map(({ length }) => length);
  const idle = Array.from({ length: strategy.numPasses(counts, kind) - own.length }, () => [0]);
  return { parts: [...own, ...idle], numOwn: own.length };
}

/**
 * Values of all rows, in the order of `rows`, from those that each rank has of its own ones. `shares` are the rows of all ranks, in
 * any order. `own` holds those of this rank in the order of its share, or is null where it has none; it is freed. The caller
 * frees the result.
 */
export async function gatherRows(
  strategy: Strategy,
  shares: readonly (readonly number[])[],
  rows: readonly number[],
  own: Tensor | null,
  { columns, device }: { readonly columns: readonly number[]; readonly device: Device },
): Promise<Tensor> {
  if (own !== null) strategy.tell(own);
  if (shares.length === 1 && own !== null) return arrangeRows(own, shares[0]!, rows);
  // Collectives need equal shapes: all shares are filled up to the largest.
  const most = Math.max(...shares.map(({ length }) => length));
  const numMissing = most - (own?.size(0) ?? 0);
  const padded = tensorScope(() => {
    const filling = zeros([numMissing, ...columns], { dtype: "float32", device });
    return keep(cat([...(own === null ? [] : [own.to("float32")]), filling]));
  });
  own?.dispose();
  const gathered = await strategy.gather(padded);
  padded.dispose();
  const placeOf = new Map(shares.flatMap((share, rank) => share.map((row, i) => [row, rank * most + i] as const)));
  const whole = tensorScope(() => {
    const index = tensor(
      rows.map((row) => placeOf.get(row)!),
      { dtype: "int64", device },
    );
    return keep(cat([...gathered]).indexSelect(0, index));
  });
  for (const part of gathered) part.dispose();
  return whole;
}

/** The only rank has them all, in the order of its share. */
function arrangeRows(own: Tensor, share: readonly number[], rows: readonly number[]): Tensor {
  const arranged = tensorScope(() => keep(joinParts([own], [share], rows)));
  if (arranged !== own) own.dispose();
  return arranged;
}

/** Which rows of a batch each rank measures and trains on, and how what ranks measured becomes whole again. */
import type { TokenSample } from "../flow/token-sample.ts";
import { cat, tensor, zeros } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { TrainerRanks } from "./trainer-ranks.ts";

/**
 * The rows of each rank: whole groups, spread so that the ranks have about equally many tokens. The longest group goes first,
 * each to the rank with the fewest. All ranks make the same plan from the same batch; a rank may have none.
 */
export function rowsByRank(samples: readonly TokenSample[], numRanks: number): readonly (readonly number[])[] {
  const tokensOf = new Map<number, number>();
  for (const { group, tokenIds } of samples) tokensOf.set(group, (tokensOf.get(group) ?? 0) + tokenIds.length);
  const loads = new Array<number>(numRanks).fill(0);
  const rankOf = new Map<number, number>();
  for (const [group, numTokens] of [...tokensOf].sort(([a, left], [b, right]) => right - left || a - b)) {
    const lightest = loads.indexOf(Math.min(...loads));
    loads[lightest]! += numTokens;
    rankOf.set(group, lightest);
  }
  const rows: number[][] = loads.map(() => []);
  for (const [row, { group }] of samples.entries()) rows[rankOf.get(group)!]!.push(row);
  return rows;
}

/**
 * Values of all rows, in the order of `rows`, from those that each rank has of its own ones. `shares` are the rows of all ranks, in
 * any order. `own` holds those of this rank in the order of its share, or is null where it has none; it is freed. The caller
 * frees the result.
 */
export async function gatherRows(
  ranks: TrainerRanks,
  shares: readonly (readonly number[])[],
  rows: readonly number[],
  own: Tensor | null,
  { columns, device }: { readonly columns: readonly number[]; readonly device: Device },
): Promise<Tensor> {
  // Collectives need equal shapes: all shares are filled up to the largest.
  const most = Math.max(...shares.map(({ length }) => length));
  const numMissing = most - (own?.size(0) ?? 0);
  const padded = tensorScope(() => {
    const filling = zeros([numMissing, ...columns], { dtype: "float32", device });
    return keep(cat([...(own === null ? [] : [own.to("float32")]), filling]));
  });
  own?.dispose();
  const gathered = await ranks.gather(padded);
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

/**
 * Attention over a cache in blocks: each query sees the tokens of its row up to its own position.
 *
 * Shapes: S queries, R rows, M blocks a row at most, H and G heads, K head size.
 */
import { native } from "./binding.ts";
import { cat } from "./create.ts";
import { type AttentionOptions, attention } from "./fused.ts";
import { Tensor } from "./tensor.ts";

export interface PagedQueries {
  /** Keys and values of one layer, [blocks, blockSize, G, K]. */
  readonly keys: Tensor;
  readonly values: Tensor;
  /** Blocks of each row in order, [R, M], int32. */
  readonly table_RM: Tensor;
  /** The row of each query, and its position in it: [S], int32. */
  readonly rows_S: Tensor;
  readonly positions_S: Tensor;
  readonly window: number | null;
  /** The factor on the scores. Default 1 / sqrt(K). */
  readonly scale?: number | null;
  /** See AttentionOptions. */
  readonly softCap?: number | null;
  readonly sinks_H?: Tensor | null;
}

/** [S, H, K] to [S, H, K]. In one pass on the CPU in float32; elsewhere see pagedAttentionReference. */
export function pagedAttention(
  q_SHK: Tensor,
  { keys, values, table_RM, rows_S, positions_S, window, scale, softCap, sinks_H }: PagedQueries,
): Tensor {
  return new Tensor(
    native.pagedAttention(
      q_SHK.handle,
      keys.handle,
      values.handle,
      table_RM.handle,
      rows_S.handle,
      positions_S.handle,
      scale ?? q_SHK.size(2) ** -0.5,
      window ?? 0,
      softCap ?? 0,
      sinks_H?.handle ?? null,
    ),
  );
}

/** A run of consecutive queries of one row: the last `numQueries` of its first `length` tokens. */
export interface PagedRun {
  readonly blocks: Tensor;
  readonly numQueries: number;
  readonly length: number;
}

/**
 * Paged attention composed from operators: gathers the keys and values of each row. For any type and device, and as the
 * reference for the others.
 */
export function pagedAttentionReference(
  q_SHK: Tensor,
  keys: Tensor,
  values: Tensor,
  runs: readonly PagedRun[],
  options: Omit<AttentionOptions, "isCausal" | "mask">,
): Tensor {
  let start = 0;
  const parts = runs.map(({ blocks, numQueries, length }) => {
    const gather = (cache: Tensor) =>
      cache.indexSelect(0, blocks).flatten(0, 1).narrow(0, 0, length).transpose(0, 1).unsqueeze(0);
    const q_1HTK = q_SHK.narrow(0, start, numQueries).transpose(0, 1).unsqueeze(0);
    start += numQueries;
    return attention(q_1HTK, gather(keys), gather(values), { isCausal: true, ...options })
      .squeeze(0)
      .transpose(0, 1);
  });
  return cat(parts, 0);
}

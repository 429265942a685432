/** The layout over the paged cache: pieces of sequences end to end. */
import { invariant } from "../../errors/reroll-error.ts";
import { type AttentionKind, rotateHeads, type TokenLayout } from "../../models/causal-lm/token-layout.ts";
import { tensor } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import { isExact } from "../../torch/exact.ts";
import { exactDecode } from "../../torch/exact-attention.ts";
import { type PackedRows, packedAttention } from "../../torch/fused.ts";
import { hasKernels } from "../../torch/kernels/cuda-kernel.ts";
import { padHeads } from "../../torch/kernels/paged-kernel.ts";
import { canStore, storeKernel } from "../../torch/kernels/store-kernel.ts";
import { pagedAttention } from "../../torch/paged-attention.ts";
import { storeRows_ } from "../../torch/row-passes.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { storedHeads, storeFp8 } from "./cached-heads.ts";
import type { PagedCache } from "./paged-cache.ts";
import { scanOver } from "./piece-states.ts";
import type { Sequence } from "./sequence.ts";

/** Part of a step, by what the cache has to know of it: a Piece, or what another rank was told of one. */
export interface StepPiece {
  readonly sequence: CachedSequence;
  readonly numTokens: number;
  readonly isLast: boolean;
}

/** How far a sequence is computed, and where its cache is. */
export type CachedSequence = Readonly<
  Pick<Sequence, "numComputed" | "blocks" | "stateSlot" | "stateSource" | "stateMark">
>;

interface PiecesOptions {
  /** Up to this many follow tokens that mean nothing. Default 0. */
  readonly numTokens?: number;
  /** Whether what a token gets may not depend, to the bit, on what else is in the step: see piece-states.ts. Default false. */
  readonly isSteady?: boolean;
}

/**
 * The pieces of a step, end to end. What they compute goes into the cache; they see what is there already. Tokens that mean nothing write
 * to the scratch block.
 */
export function piecesLayout(
  pieces: readonly StepPiece[],
  cache: PagedCache,
  { numTokens = 0, isSteady = false }: PiecesOptions = {},
): TokenLayout {
  const { blockSize, device, heads: stored } = cache;
  const numMeant = pieces.reduce((sum, piece) => sum + piece.numTokens, 0);
  const size = Math.max(numMeant, numTokens);
  const positions = new Int32Array(size);
  const rows = new Int32Array(size).fill(pieces.length);
  const slots = new Int32Array(size).fill(cache.scratchBlock * blockSize);
  let start = 0;
  let maxPosition = 0;
  pieces.forEach(({ sequence: { numComputed, blocks }, numTokens }, row) => {
    for (let i = 0; i < numTokens; i++) positions[start + i] = numComputed + i;
    rows.fill(row, start, start + numTokens);
    writeSlots(slots, start, blocks, numComputed, numTokens, blockSize);
    start += numTokens;
    maxPosition = Math.max(maxPosition, numComputed + numTokens - 1);
  });
  const int32 = (values: Int32Array) => tensor(values, [values.length], { device });
  const positions_S = int32(positions);
  const slots_S = int32(slots);
  const storesRows = isSimple(cache) && cache.format === "plain";
  const wideSlots_S = storesRows ? slots_S : slots_S.to("int64");
  const attend = attentionOver(pieces, cache, positions_S, int32(rows));
  return {
    numTokens: size,
    positions_S,
    maxPosition,
    attend: (layer, heads, rotation, kind) => {
      const { keySlots, valueSlots } = cache.keysOf(layer);
      if (cache.format !== "plain") {
        const { q_SHK, k_SGK, v_SGK } = storeFp8(cache, layer, rotateHeads(heads, rotation), { slots_S, wideSlots_S });
        return attend(layer, q_SHK, k_SGK, v_SGK, kind);
      }
      const isWhole = rotation !== null && 2 * rotation.cos_SK.size(1) === stored.storedSize;
      if (isWhole && !isExact() && hasKernels(heads.q_SHK) && canStore(heads)) {
        const { q_SHK, k_SGK } = storeKernel(heads, rotation, { keySlots, valueSlots, slots_S });
        return attend(layer, q_SHK, k_SGK, heads.v_SGK, kind);
      }
      const { q_SHK, k_SGK, v_SGK } = rotateHeads(heads, rotation);
      for (const [into, rows_SGK] of [
        [keySlots, k_SGK],
        [valueSlots, v_SGK],
      ] as const) {
        if (storesRows) storeRows_(into, slots_S, rows_SGK);
        else into.indexCopy_(0, wideSlots_S, padHeads(rows_SGK, stored.storedSize));
      }
      return attend(layer, q_SHK, k_SGK, v_SGK, kind);
    },
    scan: scanOver(pieces, cache, size, isSteady),
  };
}

/** The slots of `count` tokens of a sequence from position `first` on, into `slots` from `start` on. */
function writeSlots(
  slots: Int32Array,
  start: number,
  blocks: readonly number[],
  first: number,
  count: number,
  blockSize: number,
): void {
  for (let i = 0; i < count; i++) {
    const position = first + i;
    slots[start + i] = blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
  }
}

/** Whether attention reads the cache where it lies: see pagedAttention. */
function isSimple({ device, dtype }: PagedCache): boolean {
  return device === "cpu" && dtype === "float32";
}

type Attend = (layer: number, q_SHK: Tensor, k_SGK: Tensor, v_SGK: Tensor, kind: AttentionKind) => Tensor;

function attentionOver(pieces: readonly StepPiece[], cache: PagedCache, positions_S: Tensor, rows_S: Tensor): Attend {
  const { device } = cache;
  if (isSimple(cache)) {
    const table_RM = blockTable([...pieces.map(({ sequence }) => sequence.blocks), [cache.scratchBlock]]);
    return (layer, q_SHK, _k, _v, kind) => {
      const { keys, values } = cache.keysOf(layer);
      return pagedAttention(q_SHK, { keys, values, table_RM, rows_S, positions_S, ...kind });
    };
  }
  if (isExact()) {
    const table_RM = blockTable([...pieces.map(({ sequence }) => sequence.blocks), [cache.scratchBlock]], device);
    return exactOver(cache, table_RM.indexSelect(0, rows_S), positions_S);
  }
  const lengths = pieces.map(({ numTokens }) => numTokens);
  const numFilling = positions_S.numel - lengths.reduce((sum, length) => sum + length, 0);
  const filling = numFilling > 0 ? [numFilling] : [];
  const queries = packed([...lengths, ...filling], device);
  // Prompts that start from nothing see only what this step computes: no need to read it back from the cache.
  if (pieces.every(({ sequence }) => sequence.numComputed === 0))
    return (_layer, q_SHK, k_SGK, v_SGK, kind) => packedAttention(q_SHK, k_SGK, v_SGK, { ...queries, ...kind });
  const seen = pieces.map(({ sequence, numTokens }) => sequence.numComputed + numTokens);
  const keys = packed([...seen, ...filling], device);
  const numSeen = seen.reduce((sum, length) => sum + length, 0);
  const slots = new Int32Array(numSeen + numFilling).fill(cache.scratchBlock * cache.blockSize);
  let start = 0;
  pieces.forEach(({ sequence: { blocks } }, row) => {
    writeSlots(slots, start, blocks, 0, seen[row]!, cache.blockSize);
    start += seen[row]!;
  });
  const slots_C = tensor(slots, [slots.length], { device, dtype: "int64" });
  return (layer, q_SHK, _k, _v, kind) => {
    const { k_CGK, v_CGK } = storedHeads(cache, layer, slots_C);
    const own = (heads_CGK: Tensor) => heads_CGK.narrow(2, 0, q_SHK.size(2));
    return packedAttention(q_SHK, own(k_CGK), own(v_CGK), { ...queries, keys, ...kind });
  };
}

/** One new token per row at the end of what the cache holds of it, by exact kernels: for steps that only decode. */
export function exactRowsLayout(table_BM: Tensor, positions_B: Tensor, cache: PagedCache): TokenLayout {
  const attend = exactOver(cache, table_BM, positions_B);
  return {
    numTokens: positions_B.size(0),
    positions_S: positions_B.to("int64"),
    maxPosition: table_BM.size(1) * cache.blockSize - 1,
    attend: (layer, heads, rotation) => {
      const { q_SHK, k_SGK, v_SGK } = rotateHeads(heads, rotation);
      return attend(layer, q_SHK, k_SGK, v_SGK);
    },
    scan: (_layer, x_SX) => {
      invariant(false, "exact kernels got a layer that scans its input");
      return x_SX;
    },
  };
}

/** Attention over the cache for tokens that each have their own row of a table. Puts their keys and values there. */
function exactOver(cache: PagedCache, table_SM: Tensor, positions_S: Tensor) {
  const attend = exactDecode({ positions_S, table_SM }, cache.heads);
  return (layer: number, q_BHK: Tensor, k_BGK: Tensor, v_BGK: Tensor) =>
    attend({ q_BHK, k_BGK, v_BGK }, cache.keysOf(layer));
}

function packed(lengths: readonly number[], device: Device): PackedRows {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1)! + length);
  const starts_int32 = tensor(Int32Array.from(starts), [starts.length], { device });
  return { lengths, starts_int32, maxLength: Math.max(...lengths) };
}

function blockTable(rows: readonly (readonly number[])[], device: Device = "cpu"): Tensor {
  const width = Math.max(...rows.map((blocks) => blocks.length));
  const table = new Int32Array(rows.length * width);
  for (const [row, blocks] of rows.entries()) table.set(blocks, row * width);
  return tensor(table, [rows.length, width], { device });
}

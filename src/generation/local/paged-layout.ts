/** The layout over the paged cache: pieces of sequences end to end. */
import { type AttentionKind, rotateHeads, type TokenLayout } from "../../models/causal-lm/token-layout.ts";
import { cat, tensor } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import { type PackedRows, packedAttention } from "../../torch/fused.ts";
import { pagedAttention } from "../../torch/paged-attention.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { PagedCache } from "./paged-cache.ts";
import type { Piece } from "./scheduler.ts";

/**
 * The pieces of a step, end to end. What they compute goes into the cache; they see what is there already. Up to `numTokens`
 * follow tokens that mean nothing; they write to the scratch block.
 */
export function piecesLayout(pieces: readonly Piece[], cache: PagedCache, numTokens = 0): TokenLayout {
  const { blockSize, device } = cache;
  const positions: number[] = [];
  const rows: number[] = [];
  const slots: number[] = [];
  pieces.forEach(({ sequence, numTokens }, row) => {
    for (let i = 0; i < numTokens; i++) {
      const position = sequence.numComputed + i;
      positions.push(position);
      rows.push(row);
      slots.push(slotOf(sequence.blocks, position, blockSize));
    }
  });
  while (positions.length < numTokens) {
    positions.push(0);
    rows.push(pieces.length);
    slots.push(cache.scratchBlock * blockSize);
  }
  const int32 = (values: readonly number[]) => tensor(Int32Array.from(values), [values.length], { device });
  const positions_S = int32(positions);
  const slots_S = int32(slots).to("int64");
  const attend = attentionOver(pieces, cache, positions_S, int32(rows));
  return {
    numTokens: positions.length,
    positions_S: positions_S.to("int64"),
    maxPosition: Math.max(...positions),
    attend: (layer, heads, rotation, kind) => {
      const { q_SHK, k_SGK, v_SGK } = rotateHeads(heads, rotation);
      const { keySlots, valueSlots } = cache.layers[layer]!;
      keySlots.indexCopy_(0, slots_S, k_SGK);
      valueSlots.indexCopy_(0, slots_S, v_SGK);
      return attend(layer, q_SHK, k_SGK, v_SGK, kind);
    },
    scan: (layer, x_SX, body) => {
      const inputSlots = cache.layers[layer]!.keySlots.squeeze(1);
      inputSlots.indexCopy_(0, slots_S, x_SX);
      const parts = pieces.map(({ sequence: { blocks, numComputed }, numTokens }) => {
        const seen = Int32Array.from({ length: numComputed + numTokens }, (_, i) => slotOf(blocks, i, blockSize));
        const whole_TX = inputSlots.indexSelect(0, tensor(seen, [seen.length], { device, dtype: "int64" }));
        return body(whole_TX.unsqueeze(0)).squeeze(0).narrow(0, numComputed, numTokens);
      });
      const numFilling = positions.length - parts.reduce((sum, part) => sum + part.size(0), 0);
      const filling = numFilling === 0 ? [] : [parts[0]!.narrow(0, 0, 1).expand(numFilling, parts[0]!.size(1))];
      return cat([...parts, ...filling], 0);
    },
  };
}

function slotOf(blocks: readonly number[], position: number, blockSize: number): number {
  return blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
}

type Attend = (layer: number, q_SHK: Tensor, k_SGK: Tensor, v_SGK: Tensor, kind: AttentionKind) => Tensor;

function attentionOver(pieces: readonly Piece[], cache: PagedCache, positions_S: Tensor, rows_S: Tensor): Attend {
  const { device } = cache;
  const isSimple = device === "cpu" && cache.layers[0]!.keys.dtype === "float32";
  if (isSimple) {
    const table_RM = blockTable([...pieces.map(({ sequence }) => sequence.blocks), [cache.scratchBlock]]);
    return (layer, q_SHK, _k, _v, kind) => {
      const { keys, values } = cache.layers[layer]!;
      return pagedAttention(q_SHK, { keys, values, table_RM, rows_S, positions_S, ...kind });
    };
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
  const slots = pieces.flatMap(({ sequence: { blocks } }, row) =>
    Array.from({ length: seen[row]! }, (_, i) => slotOf(blocks, i, cache.blockSize)),
  );
  slots.push(...new Array<number>(numFilling).fill(cache.scratchBlock * cache.blockSize));
  const slots_C = tensor(Int32Array.from(slots), [slots.length], { device, dtype: "int64" });
  return (layer, q_SHK, _k, _v, kind) => {
    const { keySlots, valueSlots } = cache.layers[layer]!;
    const [k_CGK, v_CGK] = [keySlots.indexSelect(0, slots_C), valueSlots.indexSelect(0, slots_C)];
    return packedAttention(q_SHK, k_CGK, v_CGK, { ...queries, keys, ...kind });
  };
}

function packed(lengths: readonly number[], device: Device): PackedRows {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1)! + length);
  const starts_int32 = tensor(Int32Array.from(starts), [starts.length], { device });
  return { lengths, starts_int32, maxLength: Math.max(...lengths) };
}

function blockTable(rows: readonly (readonly number[])[]): Tensor {
  const width = Math.max(...rows.map((blocks) => blocks.length));
  const table = new Int32Array(rows.length * width);
  for (const [row, blocks] of rows.entries()) table.set(blocks, row * width);
  return tensor(table, [rows.length, width]);
}

/**
 * Attention of whole sequences by the kernel that decodes: every token is a row of its own that sees those before it.
 *
 * For exact kernels only (exact.ts): reading the keys once per token is slower than flash attention, and gives what decoding gives.
 */
import { applyFunction } from "./autograd.ts";
import { empty, ones, tensor, zeros } from "./create.ts";
import type { Device } from "./dtype.ts";
import type { PackedRows } from "./fused.ts";
import { canDecode, type PagedDecode, pagedDecode, steadyCut } from "./kernels/paged-kernel.ts";
import { op } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

const blockSize = 16;

/** Where the tokens of sequences lie in blocks, for one pass over all layers. */
interface ExactRows {
  /** The place of each token in blocks of 16, [S], int64. */
  readonly slots_S: Tensor;
  /** The blocks of the sequence of each token, [S, M], int32. */
  readonly table_SM: Tensor;
  /** The position of each token, [S], int32. */
  readonly positions_S: Tensor;
  readonly numBlocks: number;
}

/** Sequences of these lengths, each from a block of its own on. */
export function exactRows(lengths: readonly number[], device: Device): ExactRows {
  const numTokens = lengths.reduce((sum, length) => sum + length, 0);
  const width = Math.ceil(Math.max(...lengths) / blockSize);
  const [slots, positions, rows] = [new Int32Array(numTokens), new Int32Array(numTokens), new Int32Array(numTokens)];
  const table = new Int32Array(lengths.length * width);
  let [token, numBlocks] = [0, 0];
  lengths.forEach((length, row) => {
    rows.fill(row, token, token + length);
    for (let i = 0; i < length; i++) {
      positions[token] = i;
      slots[token++] = numBlocks * blockSize + i;
    }
    const count = Math.ceil(length / blockSize);
    for (let i = 0; i < count; i++) table[row * width + i] = numBlocks++;
  });
  const index = (values: Int32Array) => tensor(values, [values.length], { device, dtype: "int64" });
  return {
    slots_S: index(slots),
    table_SM: tensor(table, [lengths.length, width], { device }).indexSelect(0, index(rows)),
    positions_S: tensor(positions, [numTokens], { device }),
    numBlocks,
  };
}

/** Whether the kernel can attend with these heads. */
export function canAttendExactly(q_SHK: Tensor): boolean {
  const isHalf = /^b?float16$/.test(q_SHK.dtype) && q_SHK.device.startsWith("cuda");
  return isHalf && canDecode(q_SHK.size(2), blockSize);
}

/** Causal attention of rotated heads: q [S, H, K], k and v [S, G, K], one [S, H, K] back. The gradient is that of flash attention. */
export function exactAttention(
  q_SHK: Tensor,
  k_SGK: Tensor,
  v_SGK: Tensor,
  { slots_S, table_SM, positions_S, numBlocks }: ExactRows,
  { starts_int32, maxLength }: PackedRows,
): Tensor {
  const [S, H, K] = q_SHK.shape as [number, number, number];
  const G = k_SGK.size(1);
  const { device, dtype } = q_SHK;
  const inBlocks = (x_SGK: Tensor) => {
    const blocks = zeros([numBlocks, blockSize, G, K], { device, dtype });
    blocks.flatten(0, 1).indexCopy_(0, slots_S, x_SGK);
    return blocks;
  };
  return applyFunction(
    {
      forward: ([q, k, v]) => {
        const logMass_HS = empty([H, S], { device });
        const attend = exactDecode({ positions_S, table_SM }, { numHeads: H, numGroups: G, headSize: K });
        const heads = { q_BHK: q!, k_BGK: k!, v_BGK: v! };
        const out = attend(heads, { keys: inBlocks(k!), values: inBlocks(v!) }, logMass_HS);
        return { outputs: [out], saved: [q!, k!, v!, out, logMass_HS] };
      },
      backward: ([grad], saved) => {
        const [q, k, v, out, logMass_HS] = saved as [Tensor, Tensor, Tensor, Tensor, Tensor];
        const none = zeros([2], { device, dtype: "int64" });
        const places = [starts_int32, starts_int32, maxLength, maxLength] as const;
        const from = [grad!.contiguous(), q, k, v, out, logMass_HS] as const;
        return ops.flashBackward(...from, ...places, 0, true, none, none, K ** -0.5);
      },
    },
    [q_SHK, k_SGK, v_SGK],
  )[0]!;
}

/** `pagedDecode` for heads that are rotated already and see everything, cut in a way that does not depend on the number of rows. */
export function exactDecode(
  { positions_S, table_SM }: Pick<ExactRows, "positions_S" | "table_SM">,
  heads: Parameters<typeof pagedDecode>[1],
): (...[news, paged, logMass_HB]: [NewHeads, PagedKeys, logMass_HB?: Tensor]) => Tensor {
  const shape = [positions_S.size(0), heads.headSize / 2];
  const { device } = positions_S;
  const still = { cos_SK: ones(shape, { device }), sin_SK: zeros(shape, { device }) };
  const usual = { window: null, scale: null, softCap: null, sinks_H: null };
  const attend = pagedDecode({ positions_B: positions_S, table_BM: table_SM }, heads, {
    cut: steadyCut(heads.headSize),
  });
  return (news, paged, logMass_HB) => attend(news, paged, still, usual, logMass_HB);
}

type NewHeads = Parameters<PagedDecode>[0];
type PagedKeys = Parameters<PagedDecode>[1];

const ops = { flashBackward: op("aten::_flash_attention_backward") } as const;

/**
 * Keys and values of tokens already seen, so that a step costs the new tokens only.
 *
 * B rows of at most C tokens. Each row has its own length; a step appends T tokens to every row.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { arange, tensor, zeros } from "../../torch/create.ts";
import type { Device, DType } from "../../torch/dtype.ts";
import { attention } from "../../torch/fused.ts";
import { keep } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { linearInputWidth } from "./gated-delta-net.ts";
import { rotateHeads, type TokenLayout } from "./token-layout.ts";

export class KvCache {
  readonly numRows: number;
  readonly capacity: number;
  /** Tokens in each row. */
  readonly lengths: number[];
  readonly #layers: readonly { readonly k_BCGK: Tensor; readonly v_BCGK: Tensor }[];

  constructor(config: CausalLmConfig, numRows: number, capacity: number, options: { dtype: DType; device: Device }) {
    this.numRows = numRows;
    this.capacity = capacity;
    this.lengths = new Array<number>(numRows).fill(0);
    // Zero, not just memory: a row shorter than the longest reads past its end with weight 0, and 0 times NaN is NaN.
    this.#layers = keep(
      Array.from({ length: config.numLayers }, (_, layer) => {
        const { keys, values } = keptShapes(config, layer);
        return {
          k_BCGK: zeros([numRows, capacity, ...keys], options),
          v_BCGK: zeros([numRows, capacity, ...values], options),
        };
      }),
    );
  }

  /** The layout of a step that appends T tokens to every row, row after row. For inference: nothing is recorded. */
  append(T: number): TokenLayout {
    if (!Number.isInteger(T) || T < 1) {
      throw new RerollError("INVALID_ARGUMENT", `append takes a number of tokens of at least 1: got ${T}.`);
    }
    const starts = [...this.lengths];
    const end = Math.max(...starts) + T;
    if (end > this.capacity) {
      throw new RerollError(
        "CACHE_FULL",
        `The cache holds ${this.capacity} tokens a row, ${end} are needed. Make it larger.`,
      );
    }
    const B = this.numRows;
    const device = this.#layers[0]!.k_BCGK.device;
    const positions_BT = tensor(Int32Array.from(starts), [B, 1], { device, dtype: "int64" }).add(
      arange(0, T, { device }),
    );
    const slots_S = arange(0, B, { device }).unsqueeze(1).mul(this.capacity).add(positions_BT).flatten();
    const keys_C = arange(0, end, { device });
    const age_BTC = positions_BT.unsqueeze(2).sub(keys_C);
    const past_BTC = age_BTC.ge(0);
    const seen = (window: number | null) => (window === null ? past_BTC : past_BTC.logicalAnd(age_BTC.lt(window)));
    this.lengths.forEach((_, row) => {
      this.lengths[row] = starts[row]! + T;
    });
    return {
      numTokens: B * T,
      positions_S: positions_BT.flatten(),
      maxPosition: end - 1,
      attend: (layer, heads, rotation, { window, ...kind }) => {
        const { q_SHK, k_SGK, v_SGK } = rotateHeads(heads, rotation);
        const { k_BCGK, v_BCGK } = this.#layers[layer]!;
        k_BCGK.flatten(0, 1).indexCopy_(0, slots_S, k_SGK.detach());
        v_BCGK.flatten(0, 1).indexCopy_(0, slots_S, v_SGK.detach());
        const keys = (cache: Tensor) => cache.narrow(1, 0, end).transpose(1, 2);
        const q_BHTK = q_SHK.view(B, T, q_SHK.size(1), q_SHK.size(2)).transpose(1, 2);
        const out_BHTK = attention(q_BHTK, keys(k_BCGK), keys(v_BCGK), { mask: seen(window).unsqueeze(1), ...kind });
        return out_BHTK.transpose(1, 2).reshape(B * T, q_SHK.size(1), q_SHK.size(2));
      },
      // Rows may be cut back to any length, so linear attention keeps its inputs and starts over from them.
      scan: (layer, x_SX, { whole }) => {
        const inputs_BCX = this.#layers[layer]!.k_BCGK.squeeze(2);
        inputs_BCX.flatten(0, 1).indexCopy_(0, slots_S, x_SX.detach());
        const made_BCY = whole(inputs_BCX.narrow(1, 0, end));
        const places_S = arange(0, B, { device }).unsqueeze(1).mul(end).add(positions_BT).flatten();
        return made_BCY.flatten(0, 1).indexSelect(0, places_S);
      },
    };
  }

  /** Forgets tokens past this length in one row. */
  truncate(row: number, length: number): void {
    const current = this.lengths[row];
    if (current === undefined || !Number.isInteger(length) || length < 0) {
      throw new RerollError(
        "INVALID_ARGUMENT",
        `truncate takes a row from 0 to ${this.numRows - 1} and a length of at least 0: got ${row} and ${length}.`,
      );
    }
    this.lengths[row] = Math.min(length, current);
  }

  dispose(): void {
    for (const { k_BCGK, v_BCGK } of this.#layers) {
      k_BCGK.dispose();
      v_BCGK.dispose();
    }
  }
}

/** Heads and their size, of what a layer keeps of each token: keys and values; the inputs of linear attention, as one key and no value. */
function keptShapes({ features, numKeyValueHeads, headSize }: CausalLmConfig, layer: number) {
  const { linearAttention } = features;
  if (linearAttention?.layers[layer] === true) return { keys: [1, linearInputWidth(linearAttention)], values: [1, 0] };
  return { keys: [numKeyValueHeads, headSize], values: [numKeyValueHeads, headSize] };
}

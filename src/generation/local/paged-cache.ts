/** The memory of the key/value cache: blocks of tokens for every layer, and one block that nobody reads. */
import { invariant } from "../../errors/reroll-error.ts";
import { cachedValues, numCachedValues } from "../../models/causal-lm/cached-values.ts";
import type { CausalLmConfig } from "../../models/causal-lm/config.ts";
import { empty, tensor } from "../../torch/create.ts";
import { bytesOf, type Device, type DType } from "../../torch/dtype.ts";
import { bytesIn } from "../../torch/memory.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { BlockCopy } from "./scheduler.ts";

/** Keys and values of one layer, [blocks, blockSize, G, K]; of linear attention, the inputs as keys of one head: see cachedValues. */
export interface LayerCache {
  readonly keys: Tensor;
  readonly values: Tensor;
  /** Views of the same, a token per row: [blocks * blockSize, G, K]. */
  readonly keySlots: Tensor;
  readonly valueSlots: Tensor;
}

interface PagedCacheOptions {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly dtype: DType;
  readonly device: Device;
}

export class PagedCache {
  readonly #make: () => readonly LayerCache[];
  #layers: readonly LayerCache[] | null = null;
  readonly blockSize: number;
  readonly device: Device;
  /** Where rows that fill up a batch write: its content means nothing. */
  readonly scratchBlock: number;
  /** The heads of the attention that reads it. */
  readonly heads: { readonly numHeads: number; readonly numGroups: number; readonly headSize: number };

  constructor(config: CausalLmConfig, { numBlocks, blockSize, dtype, device }: PagedCacheOptions) {
    this.blockSize = blockSize;
    this.device = device;
    this.scratchBlock = numBlocks;
    const { numHeads, numKeyValueHeads, headSize } = config;
    this.heads = { numHeads, numGroups: numKeyValueHeads, headSize };
    const make = (shape: readonly number[]) => empty([numBlocks + 1, blockSize, ...shape], { dtype, device }).zero_();
    this.#make = () =>
      keep(
        Array.from({ length: config.numLayers }, (_, layer) => {
          const kept = cachedValues(config, layer);
          const [keys, values] = [make(kept.keys), make(kept.values)];
          return { keys, values, keySlots: keys.flatten(0, 1), valueSlots: values.flatten(0, 1) };
        }),
      );
    this.allocate();
  }

  get layers(): readonly LayerCache[] {
    invariant(this.#layers !== null, "a cache is read that has given its memory back");
    return this.#layers;
  }

  /** What it takes now. */
  get bytes(): number {
    return bytesIn((this.#layers ?? []).flatMap(({ keys, values }) => [keys, values]));
  }

  /** Takes its memory again after `dispose`. Does nothing while it has it. */
  allocate(): void {
    this.#layers ??= this.#make();
  }

  /** Copies whole blocks, in all layers. */
  copy(copies: readonly BlockCopy[]): void {
    if (copies.length === 0) return;
    tensorScope(() => {
      const blocks = (pick: (copy: BlockCopy) => number) =>
        tensor(Int32Array.from(copies, pick), [copies.length], { device: this.device, dtype: "int64" });
      const from = blocks((copy) => copy.from);
      const to = blocks((copy) => copy.to);
      for (const { keys, values } of this.layers) {
        keys.indexCopy_(0, to, keys.indexSelect(0, from));
        values.indexCopy_(0, to, values.indexSelect(0, from));
      }
    });
  }

  /** Gives its memory back. What it held is lost. */
  dispose(): void {
    for (const { keys, values, keySlots, valueSlots } of this.#layers ?? []) {
      for (const one of [keys, values, keySlots, valueSlots]) one.dispose();
    }
    this.#layers = null;
  }
}

/** Bytes that one block takes in all layers. */
export function blockBytes(config: CausalLmConfig, blockSize: number, dtype: DType): number {
  return numCachedValues(config) * blockSize * bytesOf(dtype);
}

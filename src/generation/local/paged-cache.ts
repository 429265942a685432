/**
 * The memory of a paged cache: blocks of tokens for the keys and values of every layer of attention, and states of sequences for every
 * layer of linear attention.
 *
 * A state has a slot of two rows: after n tokens it is in row n % 2 of them. A step reads the one and writes the other, so a step that is
 * dropped and computed again finds what it started from, as it does with keys and values.
 */
import { invariant } from "../../errors/reroll-error.ts";
import { keepsState, numCachedValues, stateBytes, stateShapes } from "../../models/causal-lm/cached-values.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../../models/causal-lm/config.ts";
import { tensor, zeros } from "../../torch/create.ts";
import { bytesOf, type Device, type DType } from "../../torch/dtype.ts";
import { isExact } from "../../torch/exact.ts";
import { paddedHeadSize } from "../../torch/kernels/paged-kernel.ts";
import { bytesIn } from "../../torch/memory.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CacheCopy } from "./scheduler.ts";

/** Keys and values of one layer, [blocks, blockSize, G, K]; codes of them where the cache has 8-bit floats. */
interface LayerCache {
  readonly keys: Tensor;
  readonly values: Tensor;
  /** Views of the same, a token per row: [blocks * blockSize, G, K]. */
  readonly keySlots: Tensor;
  readonly valueSlots: Tensor;
  /** The scales of 8-bit floats, [blocks, G, blockSize]; null where there are none. */
  readonly scales: { readonly keyScales: Tensor; readonly valueScales: Tensor } | null;
}

/**
 * How keys and values are held: as they are; rounded to 8-bit floats, on the CPU, which takes no less memory; or as the codes of those.
 */
type CacheFormat = "plain" | "rounded" | "codes";

/** States of one layer of linear attention, a row each: [rows, P, C] and [rows, H, K, W]. */
interface LayerStates {
  readonly windows: Tensor;
  readonly memories: Tensor;
}

interface PagedCacheOptions {
  readonly numBlocks: number;
  readonly blockSize: number;
  /** Slots for states, where the model has linear attention. Default 0. */
  readonly numStates?: number;
  readonly dtype: DType;
  readonly device: Device;
  /** Holds keys and values in 8-bit floats. Default: as they are. */
  readonly cacheQuantization?: "fp8" | null;
}

interface Memory {
  /** By layer: its keys and values, or its states. */
  readonly keys: readonly (LayerCache | null)[];
  readonly states: readonly (LayerStates | null)[];
}

export class PagedCache {
  readonly #make: () => Memory;
  #memory: Memory | null = null;
  /** What that takes. */
  #bytes = 0;
  readonly blockSize: number;
  /** The type that is computed in. */
  readonly dtype: DType;
  readonly format: CacheFormat;
  readonly device: Device;
  /** Where rows that fill up a batch write: its content means nothing. */
  readonly scratchBlock: number;
  /** Whether there are layers with states. */
  readonly hasStates: boolean;
  /** Values of a token that functions are computed of in a layer with states: channels and heads. */
  readonly stateWidths: readonly number[];
  /** The row of the state before the first token: all zero, and never written. */
  readonly emptyState: number;
  /** The row where rows that fill up a batch leave their state. */
  readonly scratchState: number;
  /** The heads of the attention that reads it, and the size that heads have in it: at least their own. */
  readonly heads: {
    readonly numHeads: number;
    readonly numGroups: number;
    readonly headSize: number;
    readonly storedSize: number;
  };

  constructor(config: CausalLmConfig, options: PagedCacheOptions) {
    const { numBlocks, blockSize, numStates = 0, dtype, device, cacheQuantization = null } = options;
    this.format = formatOf(cacheQuantization, device);
    this.blockSize = blockSize;
    this.dtype = dtype;
    this.device = device;
    this.scratchBlock = numBlocks;
    this.emptyState = 2 * numStates;
    this.scratchState = 2 * numStates + 1;
    const { numHeads, numKeyValueHeads: numGroups, headSize } = config;
    const storedSize = storedHeadSize(headSize, dtype, device);
    this.heads = { numHeads, numGroups, headSize, storedSize };
    const blocks = () =>
      zeros([numBlocks + 1, blockSize, numGroups, storedSize], { dtype: storedType(this.format, dtype), device });
    const scales = () => zeros([numBlocks + 1, numGroups, blockSize], { device });
    const keysAndValues = () =>
      withSlots(blocks(), blocks(), this.format === "codes" ? { keyScales: scales(), valueScales: scales() } : null);
    const shapes = stateShapes(config);
    this.hasStates = shapes !== null;
    this.stateWidths = shapes === null ? [] : [shapes.window[1]!, shapes.memory[0]!];
    const states = (shape: readonly number[], type: DType) =>
      zeros([2 * numStates + 2, ...shape], { dtype: type, device });
    const layers = Array.from({ length: config.numLayers }, (_, layer) => keepsState(config, layer));
    this.#make = () => ({
      keys: layers.map((isLinear) => (isLinear ? null : keysAndValues())),
      states: layers.map((isLinear) => {
        if (!isLinear || shapes === null) return null;
        return keep({ windows: states(shapes.window, dtype), memories: states(shapes.memory, "float32") });
      }),
    });
    this.allocate();
  }

  /** The keys and values of a layer of attention. */
  keysOf(layer: number): LayerCache {
    const keys = this.#held.keys[layer] ?? null;
    invariant(keys !== null, `layer ${layer} has no keys and values`);
    return keys;
  }

  /** The states of a layer of linear attention. */
  statesOf(layer: number): LayerStates {
    const states = this.#held.states[layer] ?? null;
    invariant(states !== null, `layer ${layer} has no states`);
    return states;
  }

  get #held(): Memory {
    invariant(this.#memory !== null, "a cache is read that has given its memory back");
    return this.#memory;
  }

  /** What it takes now. Every status of an engine asks for it. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Takes its memory again after `dispose`. Does nothing while it has it. */
  allocate(): void {
    if (this.#memory !== null) return;
    this.#memory = this.#make();
    this.#bytes = bytesIn([...this.#held.keys.flatMap(ownMemory), ...this.#held.states.flatMap(ownStates)]);
  }

  /** Copies whole blocks, and rows of states, in all layers. */
  copy(blocks: readonly CacheCopy[], stateRows: readonly CacheCopy[]): void {
    this.#copyIn(blocks, this.#held.keys.flatMap(ownMemory));
    this.#copyIn(stateRows, this.#held.states.flatMap(ownStates));
  }

  #copyIn(copies: readonly CacheCopy[], tensors: readonly Tensor[]): void {
    if (copies.length === 0) return;
    tensorScope(() => {
      const places = (pick: (copy: CacheCopy) => number) =>
        tensor(Int32Array.from(copies, pick), [copies.length], { device: this.device, dtype: "int64" });
      const from = places((copy) => copy.from);
      const to = places((copy) => copy.to);
      for (const one of tensors) one.indexCopy_(0, to, one.indexSelect(0, from));
    });
  }

  /** Gives its memory back. What it held is lost. */
  dispose(): void {
    for (const { scales, ...own } of (this.#memory?.keys ?? []).filter((layer) => layer !== null)) {
      for (const one of Object.values({ ...own, ...scales })) one.dispose();
    }
    for (const layer of this.#memory?.states ?? []) for (const one of Object.values(layer ?? {})) one.dispose();
    this.#memory = null;
    this.#bytes = 0;
  }
}

/** The cache of an engine, or of one of the ranks that an engine is split over. */
export function cacheOf(
  model: CausalLm,
  options: Pick<PagedCacheOptions, "numBlocks" | "blockSize" | "cacheQuantization"> & { readonly maxRunning: number },
): PagedCache {
  const { dtype, device } = model.embedding;
  const numStates = model.config.features.linearAttention === null ? 0 : numStateSlots(options.maxRunning);
  return new PagedCache(shapeHere(model), { ...options, numStates, dtype, device });
}

/** The shape of a model with the heads that this rank has of it. */
export function shapeHere({ config, spread: { tensor } }: CausalLm): CausalLmConfig {
  if (tensor.count === 1) return config;
  const { numHeads, numKeyValueHeads } = config;
  return { ...config, numHeads: numHeads / tensor.count, numKeyValueHeads: numKeyValueHeads / tensor.count };
}

/** Bytes that one block takes in all layers. */
export function blockBytes(
  config: CausalLmConfig,
  blockSize: number,
  { dtype, device, cacheQuantization = null }: Pick<PagedCacheOptions, "dtype" | "device" | "cacheQuantization">,
): number {
  const headSize = storedHeadSize(config.headSize, dtype, device);
  const isCoded = formatOf(cacheQuantization, device) === "codes";
  // A float32 scale for every key and value.
  return numCachedValues(config, headSize) * blockSize * (isCoded ? 1 + 4 / headSize : bytesOf(dtype));
}

function formatOf(quantization: "fp8" | null, device: Device): CacheFormat {
  if (quantization === null) return "plain";
  return device.startsWith("cuda") ? "codes" : "rounded";
}

function storedType(format: CacheFormat, dtype: DType): DType {
  return format === "codes" ? "uint8" : dtype;
}

/** Bytes of a slot for a sequence's state, in all layers. */
export function stateSlotBytes(config: CausalLmConfig, dtype: DType): number {
  return 2 * stateBytes(config, dtype);
}

/** The row of a slot that has the state after this many tokens. */
export function stateRow(slot: number, numTokens: number): number {
  return 2 * slot + (numTokens % 2);
}

/** Slots for states: one for each sequence that runs, and some for sessions between their turns and for beginnings that come again. */
export function numStateSlots(maxRunning: number): number {
  return maxRunning + Math.ceil(maxRunning / 4);
}

/** The size that heads are given in a cache, which is what the CUDA decode path can read where there is one. */
export function storedHeadSize(headSize: number, dtype: DType, device: Device): number {
  return device.startsWith("cuda") && bytesOf(dtype) === 2 && !isExact() ? paddedHeadSize(headSize) : headSize;
}

function withSlots(keys: Tensor, values: Tensor, scales: LayerCache["scales"]): LayerCache {
  return keep({ keys, values, keySlots: keys.flatten(0, 1), valueSlots: values.flatten(0, 1), scales });
}

/** What a layer's memory is, without views of it. */
function ownMemory(layer: LayerCache | null): Tensor[] {
  return layer === null ? [] : [layer.keys, layer.values, ...Object.values(layer.scales ?? {})];
}

function ownStates(layer: LayerStates | null): Tensor[] {
  return layer === null ? [] : [layer.windows, layer.memories];
}

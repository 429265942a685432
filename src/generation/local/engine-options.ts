/** The sizes of an engine, and what they are when nobody says. */
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { expectFp8 } from "../../torch/fp8.ts";
import { blockBytes, shapeHere } from "./paged-cache.ts";
import type { OtherRanks } from "./split/other-ranks.ts";

/** Tokens in a cache block. */
export const defaultBlockSize = 16;

export interface EngineOptions {
  /** Tokens of a prompt and its reply together. Default: the model's, at most 4,096. */
  readonly contextLength?: number;
  /** Sequences that run at the same time. Default: 256 on a GPU, 64 on the CPU. */
  readonly maxRunning?: number;
  /** Requests that may wait. Default 16,384; more are refused. */
  readonly maxQueued?: number;
  /** Tokens that one step computes: a long prompt is cut, so that running sequences do not wait for it. Default: 8,192 on a GPU, 1,024 on the CPU. */
  readonly maxStepTokens?: number;
  /** Tokens in a cache block. Default 16. */
  readonly blockSize?: number;
  /** Cache blocks. Default: what 20 GB on a GPU or 1 GB on the CPU hold, at most what maxRunning full contexts need. */
  readonly numBlocks?: number;
  /** Draws of requests without a seed start here. Default 0. */
  readonly seed?: number;
  /**
   * On the CPU: what a request draws does not depend, to the bit, on what else runs. Costs time where few sequences run: see
   * steady-rows.ts. Default false.
   */
  readonly isSteady?: boolean;
  /**
   * New weights make running sequences compute the keys and values of their tokens again, so that every token is drawn as if the
   * present weights had read the whole sequence. Costs a prefill of everything that runs per update. Default false: they go on with
   * what older weights have computed.
   */
  readonly reprefills?: boolean;
  /**
   * Holds keys and values in 8-bit floats, with a scale for every token and head: half of the memory and of what a step reads on a GPU of
   * compute capability 8.9 or later. On the CPU they are rounded alike and take what they took. Default null: as they are.
   */
  readonly cacheQuantization?: "fp8" | null;
}

/** What an engine in this thread is made with, beside its model. */
export interface LocalEngineOptions extends EngineOptions {
  /** For stop strings and formats. */
  readonly tokenizer?: Tokenizer;
  /** The version of the first weights. Default 0. */
  readonly version?: number;
  /** The ranks that have the other parts of the model, where it is split. */
  readonly others?: OtherRanks | undefined;
}

export function resolveOptions(model: CausalLm, options: EngineOptions): Required<EngineOptions> {
  const isOnGpu = model.embedding.device.startsWith("cuda");
  const contextLength = options.contextLength ?? Math.min(4096, model.config.maxPositions);
  const maxRunning = options.maxRunning ?? (isOnGpu ? 256 : 64);
  const blockSize = options.blockSize ?? defaultBlockSize;
  const blocksPerContext = Math.ceil(contextLength / blockSize);
  const { dtype, device } = model.embedding;
  const { cacheQuantization = null } = options;
  if (cacheQuantization !== null) expectFp8(device, "cacheQuantization");
  const perBlock = blockBytes(shapeHere(model), blockSize, { dtype, device, cacheQuantization });
  const affordable = Math.floor((isOnGpu ? 20e9 : 1e9) / perBlock);
  const numBlocks =
    options.numBlocks ?? Math.max(blocksPerContext, Math.min(affordable, maxRunning * blocksPerContext));
  const maxQueued = options.maxQueued ?? 16_384;
  const maxStepTokens = options.maxStepTokens ?? (isOnGpu ? 8192 : 1024);
  expectPositive({ contextLength, maxRunning, maxQueued, maxStepTokens, blockSize, numBlocks });
  if (numBlocks < blocksPerContext) {
    throw new RerollError(
      "INVALID_OPTION",
      `numBlocks ${numBlocks} of ${blockSize} tokens do not hold one context of ${contextLength} tokens: at least ${blocksPerContext} are needed.`,
    );
  }
  const { seed = 0, isSteady = false, reprefills = false } = options;
  const sizes = { contextLength, maxRunning, maxQueued, maxStepTokens, blockSize, numBlocks };
  return { ...sizes, seed, isSteady, reprefills, cacheQuantization };
}

function expectPositive(sizes: Readonly<Record<string, number>>): void {
  for (const [name, size] of Object.entries(sizes)) {
    if (Number.isSafeInteger(size) && size > 0) continue;
    throw new RerollError("INVALID_OPTION", `${name} must be a whole number of at least 1: got ${size}.`);
  }
}

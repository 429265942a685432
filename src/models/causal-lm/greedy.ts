/** The most likely continuation of each row: the plainest way to generate, for checks and first looks. */
import { RerollError } from "../../errors/reroll-error.ts";
import { inferenceMode } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { op } from "../../torch/operator.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { KvCache } from "./kv-cache.ts";
import { paddedLayout } from "./token-layout.ts";

export interface GreedyOptions {
  readonly numTokens: number;
  /** Whether to keep keys and values between steps. Default true; without, every step computes everything again. */
  readonly useCache?: boolean;
  /** Tokens that are never chosen, such as end tokens where a text of full length is wanted. Default none. */
  readonly suppressedIds?: readonly number[];
}

/** Continues prompts of equal length by `numTokens` tokens each. */
export function greedy(model: CausalLm, prompts: readonly (readonly number[])[], options: GreedyOptions): number[][] {
  const { numTokens, useCache = true, suppressedIds = [] } = options;
  const promptLength = commonLength(prompts);
  if (!Number.isInteger(numTokens) || numTokens < 0) {
    throw new RerollError("INVALID_ARGUMENT", `numTokens must be an integer of at least 0: got ${numTokens}.`);
  }
  for (const prompt of prompts) expectIds("prompts", prompt, model.config.vocabSize);
  expectIds("suppressedIds", suppressedIds, model.config.vocabSize);
  const rows = prompts.map((prompt) => [...prompt]);
  const { dtype, device } = model.embedding;
  const capacity = promptLength + numTokens;
  const cache = useCache ? new KvCache(model.config, rows.length, capacity, { dtype, device }) : null;
  try {
    for (let step = 0; step < numTokens; step++) {
      const input = cache !== null && step > 0 ? rows.map((row) => row.slice(-1)) : rows;
      const next = mostLikely(model, input, cache, suppressedIds);
      next.forEach((token, row) => void rows[row]?.push(token));
    }
  } finally {
    cache?.dispose();
  }
  return rows.map((row) => row.slice(promptLength));
}

/** The best next token of each row. The tokens of `input` are appended to the cache, or are all there is without one. */
function mostLikely(
  model: CausalLm,
  input: readonly (readonly number[])[],
  cache: KvCache | null,
  suppressedIds: readonly number[],
): number[] {
  return tensorScope(() =>
    inferenceMode(() => {
      const B = input.length;
      const T = input[0]?.length ?? 0;
      const { device } = model.embedding;
      const hidden_SD = model.forward(idTensor(input.flat(), device), cache?.append(T) ?? paddedLayout(B, T, device));
      const logits_BV = model.logits(hidden_SD.view(B, T, hidden_SD.size(1)).select(1, T - 1));
      return suppress(logits_BV, suppressedIds).argmax(-1).toArray();
    }),
  );
}

function suppress(logits_BV: Tensor, ids: readonly number[]): Tensor {
  if (ids.length === 0) return logits_BV;
  return indexFill(logits_BV, 1, idTensor(ids, logits_BV.device), Number.NEGATIVE_INFINITY);
}

function idTensor(ids: readonly number[], device: string): Tensor {
  return tensor(Int32Array.from(ids), [ids.length], { device, dtype: "int64" });
}

function commonLength(prompts: readonly (readonly number[])[]): number {
  const lengths = prompts.map((prompt) => prompt.length);
  const [first] = lengths;
  if (first !== undefined && first > 0 && lengths.every((length) => length === first)) return first;
  throw new RerollError(
    "INVALID_ARGUMENT",
    `greedy needs at least one prompt, all of one length above 0: got lengths [${lengths.join(", ")}].`,
  );
}

function expectIds(name: string, ids: readonly number[], vocabSize: number): void {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (wrong === undefined) return;
  throw new RerollError("INVALID_ARGUMENT", `${name} must hold token ids from 0 to ${vocabSize - 1}: got ${wrong}.`);
}

const indexFill = op("aten::index_fill.int_Scalar");

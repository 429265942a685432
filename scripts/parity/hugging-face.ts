/**
 * Compares models with what Hugging Face transformers computed for them.
 *
 * In: a folder of model folders, each with a golden.json beside its weights. Out: the largest error of every quantity.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { greedy } from "../../src/models/causal-lm/greedy.ts";
import { type LoadOptions, loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { packedLayout, paddedLayout, type TokenLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { namedWeights } from "../../src/models/causal-lm/weight-names.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

const matrix = z.array(z.array(z.number()));
const goldenSchema = z.object({
  ids: matrix,
  logitsLast: matrix,
  tokenLogprobs: matrix,
  entropy: matrix,
  loss: z.number(),
  grads: z.record(z.string(), z.object({ norm: z.number(), first: z.array(z.number()) })),
  greedyFrom8: matrix,
});
type Golden = z.infer<typeof goldenSchema>;

/** The largest error per quantity of one model; `greedyMismatches` counts tokens. */
export interface ModelParity {
  readonly model: string;
  readonly errors: Readonly<Record<string, number>>;
  readonly greedyMismatches: number;
}

/** Names of the model folders in a folder that have a golden.json. */
export function goldenModels(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => existsSync(join(folder, name, "golden.json")))
    .sort();
}

export function checkModel(folder: string, name: string, options: LoadOptions = {}): ModelParity {
  const golden = goldenSchema.parse(JSON.parse(readFileSync(join(folder, name, "golden.json"), "utf8")));
  const model = loadCausalLm(join(folder, name), options);
  const errors = {
    ...prefixed(
      "padded",
      tensorScope(() => checkForward(model, golden, "padded")),
    ),
    ...prefixed(
      "packed",
      tensorScope(() => checkForward(model, golden, "packed")),
    ),
    ...prefixed(
      "recomputed",
      tensorScope(() => checkForward(model, golden, "recomputed")),
    ),
    "ragged.logprobs": tensorScope(() => checkRagged(model, golden)),
  };
  const prompts = golden.ids.map((row) => row.slice(0, 8));
  const numTokens = golden.greedyFrom8[0]?.length ?? 0;
  // The golden continuations were made with min_new_tokens, which rules out the end tokens.
  const suppressedIds = model.config.eosTokenIds;
  const mismatches = [true, false].map((useCache) => {
    const got = greedy(model, prompts, { numTokens, useCache, suppressedIds }).flat();
    return golden.greedyFrom8.flat().filter((token, i) => token !== got[i]).length;
  });
  model.dispose();
  return { model: name, errors, greedyMismatches: Math.max(...mismatches) };
}

/** The whole of golden.json through one layout of the same tokens. */
function checkForward(
  model: CausalLm,
  golden: Golden,
  mode: "padded" | "packed" | "recomputed",
): Record<string, number> {
  const B = golden.ids.length;
  const T = golden.ids[0]?.length ?? 0;
  const { softCap } = model;
  const { device } = model.embedding;
  const layout =
    mode === "padded"
      ? paddedLayout(B, T, device)
      : packedLayout(
          golden.ids.map((row) => row.length),
          device,
        );
  const hidden_SD = model.forward(ids(golden.ids, device), layout, { recompute: mode === "recomputed" });
  const rows = hidden_SD.view(B, T, hidden_SD.size(1));
  const scored_SD = rows.narrow(1, 0, T - 1).reshape(B * (T - 1), hidden_SD.size(1));
  const targets = ids(
    golden.ids.map((row) => row.slice(1)),
    device,
  );
  const { logprobs_S } = tokenLogprobs(scored_SD, model.head, targets, { chunkTokens: 10, softCap });
  const full = tokenLogprobs(hidden_SD, model.head, ids(golden.ids, device), { chunkTokens: 7, softCap });
  const count = B * (T - 1);
  const weights = tensor(
    Float32Array.from({ length: count }, (_, i) => 0.5 + i / (count - 1)),
    [count],
    { device },
  );
  const loss = logprobs_S.mul(weights).mean().neg();
  model.zeroGrad();
  loss.backward();
  const entropy = full.entropy_S.toArray();
  const entropyRows = golden.entropy[0]?.length ?? T;
  return {
    logprobs: maxError(logprobs_S.toArray(), golden.tokenLogprobs.flat()),
    entropy: maxError(
      entropy.filter((_, i) => i % T < entropyRows),
      golden.entropy.flat(),
    ),
    logitsLast: maxError(model.logits(rows.select(1, T - 1)).toArray(), golden.logitsLast.flat()),
    loss: Math.abs(loss.item() - golden.loss),
    grads: gradientError(model, golden),
  };
}

/** Rows cut to different lengths: right-padded and packed must both give what each row alone gives. */
function checkRagged(model: CausalLm, golden: Golden): number {
  const { device } = model.embedding;
  const T = golden.ids[0]?.length ?? 0;
  const cut = golden.ids.map((row, r) => row.slice(0, T - 5 * r));
  const padded = golden.ids.map((row, r) => row.map((id, t) => (t < T - 5 * r ? id : 0)));
  const lengths = cut.map((row) => row.length);
  const expected = golden.tokenLogprobs.flatMap((row, r) => row.slice(0, (lengths[r] ?? 1) - 1));
  const score = (rows: readonly (readonly number[])[], layout: TokenLayout, stride: (row: number) => number) => {
    const hidden_SD = model.forward(ids(rows, device), layout);
    const picks = lengths.flatMap((length, r) => Array.from({ length: length - 1 }, (_, t) => stride(r) + t));
    const targets = ids(
      cut.map((row) => row.slice(1)),
      device,
    );
    const picked = hidden_SD.indexSelect(0, tensor(Int32Array.from(picks), [picks.length], { device, dtype: "int64" }));
    return maxError(
      tokenLogprobs(picked, model.head, targets, { softCap: model.softCap }).logprobs_S.toArray(),
      expected,
    );
  };
  const starts = lengths.map((_, r) => lengths.slice(0, r).reduce((sum, length) => sum + length, 0));
  return Math.max(
    score(cut, packedLayout(lengths, device), (r) => starts[r] ?? 0),
    score(padded, paddedLayout(padded.length, T, device), (r) => r * T),
  );
}

/** Norm (relative) and first values (absolute) of every gradient that the golden file lists. */
function gradientError(model: CausalLm, golden: Golden): number {
  const gradients = new Map<string, Tensor>();
  for (const { name, parameter, viewOf } of namedWeights(model)) {
    if (parameter.grad !== null) gradients.set(name, viewOf(parameter.grad));
  }
  model.layers.forEach((layer, i) => {
    const at = `model.layers.${i}.mlp.experts`;
    if (!("router" in layer.mlp) || gradients.has(`${at}.gate_up_proj`)) return;
    gradients.set(`${at}.gate_up_proj`, layer.mlp.gateUp.grad!);
    gradients.set(`${at}.down_proj`, layer.mlp.down.grad!);
  });
  return Math.max(
    ...Object.entries(golden.grads).map(([name, { norm, first }]) => {
      const gradient = gradients.get(name);
      if (gradient === undefined) return Number.POSITIVE_INFINITY;
      const got = gradient.to("float32");
      const normError = Math.abs(got.norm().item() - norm) / Math.max(norm, 1);
      return Math.max(normError, maxError(got.flatten().narrow(0, 0, first.length).toArray(), first));
    }),
  );
}

function ids(rows: readonly (readonly number[])[], device: string): Tensor {
  const flat = Int32Array.from(rows.flat());
  return tensor(flat, [flat.length], { device, dtype: "int64" });
}

function maxError(got: readonly number[], expected: readonly number[]): number {
  if (got.length !== expected.length) return Number.POSITIVE_INFINITY;
  return got.reduce((worst, value, i) => {
    const error = Math.abs(value - (expected[i] ?? Number.NaN));
    return Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(worst, error);
  }, 0);
}

function prefixed(prefix: string, errors: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(errors).map(([key, value]) => [`${prefix}.${key}`, value]));
}

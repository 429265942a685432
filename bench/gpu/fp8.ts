/**
 * The engine in 8-bit floats beside bfloat16 on one GPU: whether products, attention and the cache compute what they should, the time of a decode
 * step, and how far log-probs are from those of the trainer's forward pass.
 *
 * Usage: sh run.sh fp8 [--parts check,steps,gap] [--shapes 0.5B,7B] [--rows 64,256] [--length 1024] [--model folder] [--out file.json]
 */
import { parseArgs } from "node:util";
import { fp8KeysOf, storedHeads, storeFp8 } from "../../src/generation/local/cached-heads.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { PagedCache } from "../../src/generation/local/paged-cache.ts";
import { promptLogprobs } from "../../src/generation/local/prompt-logprobs.ts";
import { uniformAt } from "../../src/generation/local/uniform.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { Fp8Matrix } from "../../src/models/causal-lm/fp8-matrix.ts";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { quantizeModel } from "../../src/models/causal-lm/quantize-model.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { ones, randn, tensor, zeros } from "../../src/torch/create.ts";
import { cudaSynchronize, emptyCudaCache } from "../../src/torch/cuda.ts";
import { fp8Rounded } from "../../src/torch/fp8.ts";
import { pagedFp8Decode } from "../../src/torch/kernels/paged-fp8-kernel.ts";
import { pagedDecode } from "../../src/torch/kernels/paged-kernel.ts";
import { op } from "../../src/torch/operator.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { decodeStepMs } from "./decode-step.ts";
import { createShape, shapes } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({
  options: {
    parts: { type: "string", default: "check,steps,gap" },
    shapes: { type: "string", default: "0.5B,7B" },
    rows: { type: "string", default: "64,256" },
    length: { type: "string", default: "1024" },
    model: { type: "string" },
    out: { type: "string" },
  },
});
const place = { device: "cuda", dtype: "bfloat16" } as const;
const report = rowReport("gpu-fp8", values.out);
const linear = op("aten::linear");

const parts: Readonly<Record<string, () => void | Promise<void>>> = { check, steps, gap };
for (const part of values.parts.split(",")) {
  try {
    await parts[part]!();
  } catch (cause) {
    report({ what: part, failed: String(cause).slice(0, 600) });
  }
}

/** Largest and mean difference, by the mean magnitude of what is expected. */
function differenceOf(got: Tensor, expected: Tensor) {
  const size = expected.to("float32").abs().mean().item();
  const gap = got.to("float32").sub(expected.to("float32")).abs();
  return { largest: +(gap.max().item() / size).toFixed(5), mean: +(gap.mean().item() / size).toFixed(6) };
}

function check(): void {
  noGrad(() => tensorScope(checkProducts));
  for (const [K, H, G] of [
    [64, 14, 2],
    [128, 28, 4],
    [256, 8, 4],
  ] as const)
    noGrad(() => tensorScope(() => checkCache(H, G, K)));
}

/** Products of codes beside products of the values they stand for, and beside those of unrounded values; and the time of either. */
function checkProducts(): void {
  for (const [S, I, D] of [
    [1, 896, 1152],
    [17, 576, 960],
    [64, 896, 9728],
    [256, 4864, 896],
    [64, 3584, 37888],
    [256, 18944, 3584],
    [8192, 896, 9728],
  ] as const) {
    const [x, w, bias] = [randn([S, I], place), randn([D, I], place).mul(0.02), randn([D], place)];
    const matrix = new Fp8Matrix(w);
    const got = matrix.linear(x, bias);
    const values = linear(fp8Rounded(x.to("float32")), fp8Rounded(w.to("float32")), bias.to("float32"));
    const plain = linear(x, w, bias);
    report({
      ...{ what: "product", S, I, D },
      ofValues: differenceOf(got, values),
      ofExpanded: differenceOf(matrix.expand(), fp8Rounded(w)),
      ofUnrounded: differenceOf(got, plain),
      microseconds: microsecondsOf(() => matrix.linear(x, bias)),
      plainMicroseconds: microsecondsOf(() => linear(x, w, bias)),
    });
    matrix.dispose();
  }
}

function microsecondsOf(run: () => Tensor): number {
  const repeat = () => {
    for (let i = 0; i < 20; i++) tensorScope(() => void run());
    cudaSynchronize();
  };
  repeat();
  const start = performance.now();
  repeat();
  return +((performance.now() - start) * 50).toFixed(1);
}

/** What is stored comes back rounded, and attention over codes is attention over the rounded values, with the new token in it. */
function checkCache(H: number, G: number, K: number): void {
  const [B, M] = [5, 40];
  const config = parseConfig(
    { ...shapes["0.5B"], head_dim: K, num_attention_heads: H, num_key_value_heads: G, num_hidden_layers: 1 },
    "a shape",
  );
  const options = { numBlocks: B * M, blockSize: 16, ...place };
  const [coded, plain] = [
    new PagedCache({ ...config, headSize: K }, { ...options, cacheQuantization: "fp8" }),
    new PagedCache({ ...config, headSize: K }, options),
  ];
  const numSlots = B * M * 16;
  const slots = tensor(
    Int32Array.from({ length: numSlots }, (_, i) => i),
    [numSlots],
    { device: "cuda" },
  );
  const [k, v] = [randn([numSlots, G, K], place), randn([numSlots, G, K], place).mul(0.1)];
  storeFp8(coded, 0, { q_SHK: k, k_SGK: k, v_SGK: v }, { slots_S: slots, wideSlots_S: slots.to("int64") });
  const stored = storedHeads(coded, 0, slots.to("int64"));
  const rounded = [fp8Rounded(k), fp8Rounded(v)] as const;
  plain.keysOf(0).keySlots.narrow(0, 0, numSlots).copy_(rounded[0]);
  plain.keysOf(0).valueSlots.narrow(0, 0, numSlots).copy_(rounded[1]);
  const positions = [0, 15, 16, 333, 639];
  const rows = {
    positions_B: tensor(Int32Array.from(positions), [B], { device: "cuda" }),
    table_BM: slots.narrow(0, 0, B * M).view(B, M),
  };
  const shape = { numHeads: H, numGroups: G, headSize: K };
  const [q_BHK, k_BGK, v_BGK] = [randn([B, H, K], place), randn([B, G, K], place), randn([B, G, K], place)];
  // A rotation that turns nothing, so that rounding before it is rounding after it.
  const still = { cos_SK: ones([B, K / 2], { device: "cuda" }), sin_SK: zeros([B, K / 2], { device: "cuda" }) };
  for (const [window, softCap] of [
    [null, null],
    [100, null],
    [null, 30],
  ] as const) {
    const kind = { window, scale: null, softCap, sinks_H: null };
    const got = pagedFp8Decode(rows, shape)({ q_BHK, k_BGK, v_BGK }, fp8KeysOf(coded, 0), still, kind);
    const news = { q_BHK, k_BGK: fp8Rounded(k_BGK), v_BGK: fp8Rounded(v_BGK) };
    const expected = pagedDecode(rows, shape)(news, plain.keysOf(0), still, kind);
    report({ what: "attention", H, G, K, window, softCap, ...differenceOf(got, expected) });
  }
  report({
    what: "cache",
    K,
    keys: differenceOf(stored.k_CGK, rounded[0]),
    values: differenceOf(stored.v_CGK, rounded[1]),
  });
  coded.dispose();
  plain.dispose();
}

/** Decode steps in all four ways. */
function steps(): void {
  const length = Number(values.length);
  for (const name of values.shapes.split(",")) {
    const model = createShape(shapes[name as keyof typeof shapes], place);
    const time = (weights: string) => {
      for (const B of values.rows.split(",").map(Number))
        for (const cacheQuantization of [null, "fp8"] as const) {
          const ms = decodeStepMs(model, { numRows: B, length, cacheQuantization });
          const cache = cacheQuantization ?? "bfloat16";
          report({
            ...{ what: "step", shape: name, weights, cache, B, length },
            ...{ msPerStep: +ms.toFixed(4), tokensPerSecond: Math.round((B * 1000) / ms) },
          });
        }
    };
    time("bfloat16");
    quantizeModel(model, "fp8", "cuda");
    emptyCudaCache();
    time("fp8");
    model.dispose();
    emptyCudaCache();
  }
}

/** Log-probs of 32 replies beside those of a forward pass with the weights as they are. */
async function gap(): Promise<void> {
  if (values.model === undefined) throw new Error("--model is missing: a folder with a model.");
  const trained = loadCausalLm(values.model, place);
  for (const [quantization, cacheQuantization] of [
    [null, null],
    ["fp8", null],
    [null, "fp8"],
    ["fp8", "fp8"],
  ] as const) {
    const model = loadCausalLm(values.model, { ...place, ...(quantization !== null && { quantization }) });
    const engine = new LocalEngine(model, { contextLength: 512, maxRunning: 32, cacheQuantization });
    const gaps: number[] = [];
    const replies = await Promise.all(
      Array.from({ length: 32 }, async (_, i) => {
        const promptIds = Int32Array.from({ length: 24 }, (_, t) => 1000 + Math.floor(uniformAt(i, t) * 20_000));
        return { promptIds, ...(await engine.generate({ promptIds, sampling: { maxTokens: 192, seed: i } })) };
      }),
    );
    for (const { promptIds, tokenIds, modelLogprobs } of replies) {
      const trainer = promptLogprobs(trained, Int32Array.from([...promptIds, ...tokenIds])).subarray(-tokenIds.length);
      trainer.forEach((value, t) => void gaps.push(Math.abs(value - modelLogprobs[t]!)));
    }
    const mean = gaps.reduce((sum, one) => sum + one, 0) / gaps.length;
    report({
      ...{ what: "gap", weights: quantization ?? "bfloat16", cache: cacheQuantization ?? "bfloat16" },
      ...{ tokens: gaps.length, mean: +mean.toFixed(5), largest: +Math.max(...gaps).toFixed(3) },
    });
    await engine.close();
    model.dispose();
  }
}

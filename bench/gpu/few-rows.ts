/**
 * Attention of few rows on one Hopper GPU, every way to divide it beside the others: how far its results are from those of spans that are
 * joined through memory, whether they repeat to the bit, its time alone, and what it adds to a step.
 *
 * Usage: sh run.sh few-rows [--shapes 0.5B,7B] [--rows 1,8] [--lengths 1024,4096] [--context 4096] [--layers 24] [--out file.json]
 *
 * A row of the report is a way: `alone` and `added` are microseconds of one layer, `added` what a step with it takes longer than one without
 * attention, `step` and `without` milliseconds. The way that the engine takes is marked. `--context` makes tables as wide as those of an engine whose
 * sequences may be longer than they are. Exits with 1 where results differ.
 */
import { parseArgs } from "node:util";
import { chainedScores } from "../../src/generation/local/chained-layers.ts";
import { PagedCache } from "../../src/generation/local/paged-cache.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { ModelRotary } from "../../src/models/causal-lm/rotary.ts";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { arange, full, ones, randint, randn, tensor, zeros } from "../../src/torch/create.ts";
import { emptyCudaCache } from "../../src/torch/cuda.ts";
import { type ClusterCut, clusterCutFor, pagedCluster } from "../../src/torch/kernels/paged-cluster-kernel.ts";
import {
  type DecodeHeads,
  type DecodeRows,
  type PagedDecode,
  pagedDecode,
} from "../../src/torch/kernels/paged-kernel.ts";
import { pagedStream, streamCutFor } from "../../src/torch/kernels/paged-stream-kernel.ts";
import { op } from "../../src/torch/operator.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { createShape, shapes } from "./qwen-shape.ts";
import { recordedMs } from "./recorded-time.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "0.5B,7B" },
    rows: { type: "string" },
    lengths: { type: "string", default: "1024,4096" },
    context: { type: "string" },
    layers: { type: "string" },
    out: { type: "string" },
  },
});
const numbers = (list: string) => list.split(",").map(Number);
const [device, dtype, blockSize] = ["cuda", "bfloat16", 16] as const;
const usualRows: Readonly<Record<string, string>> = { "7B": "1,4,8,16" };
/** The divisions of warps and depths that are tried, by the size of heads. */
const divisions = {
  64: [
    [8, 1],
    [8, 2],
    [8, 3],
    [4, 2],
  ],
  128: [
    [8, 1],
    [8, 2],
    [4, 2],
  ],
} as const;
/** Two roundings to bfloat16 apart, relative to the largest value. */
const tolerance = 2 ** -7;
const normal_ = op("aten::normal_");
const report = rowReport("gpu-few-rows", values.out);
let isSound = true;
manualSeed(0);

for (const shape of values.shapes.split(",")) {
  const layers = values.layers === undefined ? {} : { num_hidden_layers: Number(values.layers) };
  const model = createShape({ ...shapes[shape as keyof typeof shapes], ...layers } as (typeof shapes)["0.5B"], {
    device,
    dtype,
  });
  for (const length of numbers(values.lengths))
    for (const B of numbers(values.rows ?? usualRows[shape] ?? "1,2,4,8,16,32")) {
      tensorScope(() => inferenceMode(() => compare(shape, model, B, length)));
      emptyCudaCache();
    }
  model.dispose();
}
process.exit(isSound ? 0 : 1);

interface Way {
  readonly name: string;
  readonly isUsual: boolean;
  readonly prepare: (rows: DecodeRows, heads: DecodeHeads) => PagedDecode;
}

/** Spans first, which the others are compared with. */
function waysFor(numRows: number, maxTokens: number, headSize: number): Way[] {
  const stream = streamCutFor(numRows, maxTokens, headSize);
  const usual = clusterCutFor(numRows, maxTokens, headSize);
  const prepareSpans: Way["prepare"] = (rows, heads) => pagedDecode(rows, heads, { overlaps: true });
  const ways: Way[] = [{ name: "spans", isUsual: stream === null && usual === null, prepare: prepareSpans }];
  if (stream !== null)
    ways.push({
      name: "stream",
      isUsual: usual === null,
      prepare: (rows, heads) => pagedStream(rows, heads, stream, true),
    });
  for (const cluster of usual?.cluster === 8 ? ([8, 4] as const) : ([4, 2] as const))
    for (const [warps, depth] of divisions[headSize as keyof typeof divisions]) {
      // More warps than this do not run at the same time.
      if (numRows * cluster * warps > 1024) continue;
      const cut: ClusterCut = { cluster, warps, depth };
      const isUsual = cluster === usual?.cluster && warps === usual.warps && depth === usual.depth;
      const name = `cluster ${cluster} x ${warps}, depth ${depth}`;
      ways.push({ name, isUsual, prepare: (rows, heads) => pagedCluster(rows, heads, cut, true) });
    }
  return ways;
}

function compare(shape: string, model: CausalLm, B: number, length: number): void {
  const { config } = model;
  const M = Math.ceil(Math.max(length, Number(values.context ?? 0)) / blockSize);
  const used = Math.ceil(length / blockSize);
  const cache = new PagedCache(config, { numBlocks: B * used, blockSize, dtype, device });
  cache.allocate();
  for (let i = 0; i < config.numLayers; i++)
    for (const one of [cache.keysOf(i).keys, cache.keysOf(i).values]) normal_(one, 0, 1);
  const int = (list: number[]) => tensor(Int32Array.from(list), [list.length], { device });
  const table_BM = int(
    Array.from({ length: B * M }, (_, i) => Math.floor(i / M) * used + Math.min(i % M, used - 1)),
  ).view(B, M);
  const positions_B = full([B], length - 1, { device })
    .sub(arange(0, B, { device }).remainder(7))
    .to("int32");
  const { numHeads, numGroups, headSize } = cache.heads;
  const heads = { numHeads, numGroups, headSize };
  const ids_B = randint(0, config.vocabSize, [B], { device }).to("int32");
  const temperatures_B = ones([B], { device });
  const rotary = new ModelRotary(config);
  const rotate = (positions: Tensor) => rotary.rotationsAt(positions, M * blockSize - 1).whole;
  const qkv = randn([B, numHeads + 2 * numGroups, headSize], { device }).to(dtype);
  const [q_BHK, k_BGK, v_BGK] = qkv.splitSizes([numHeads, numGroups, numGroups], 1) as [Tensor, Tensor, Tensor];
  const kind = { window: null, scale: null, softCap: null, sinks_H: null };

  // All rows as long as they get, as short as they get, and all that is between.
  const lengthsOf = [() => length, () => 1, (b: number) => 1 + ((b * 7919 + 4099) % length)];
  const layer0 = cache.keysOf(0);
  const before = { keys: layer0.keys.clone(), values: layer0.values.clone() };
  const outputsOf = ({ prepare }: Way) => {
    // Each way finds the same cache, whatever was measured on it before.
    const paged = { keys: before.keys.clone(), values: before.values.clone() };
    return lengthsOf.map((lengthOf) => {
      const rows = { positions_B: int(Array.from({ length: B }, (_, b) => lengthOf(b) - 1)), table_BM };
      return prepare(rows, heads)({ q_BHK, k_BGK, v_BGK }, paged, rotate(rows.positions_B), kind);
    });
  };
  const empty_BN = zeros([B, numHeads * headSize], { device, dtype });
  const stepMs = (way: Way | null) =>
    recordedMs(() => {
      const rotation = rotate(positions_B);
      const attend = way?.prepare({ positions_B, table_BM }, heads);
      return chainedScores(model, { ids_B, temperatures_B }, (attention, qkv_BN, i) => {
        const { q_SHK, k_SGK, v_SGK } = attention.headsOf(qkv_BN);
        const news = { q_BHK: q_SHK, k_BGK: k_SGK, v_BGK: v_SGK };
        return attend?.(news, cache.keysOf(i), rotation, attention.kind).flatten(1) ?? empty_BN;
      }).scores_BV;
    });
  const aloneMs = ({ prepare }: Way) => {
    const rotation = rotate(positions_B);
    return recordedMs(() => {
      const attend = prepare({ positions_B, table_BM }, heads);
      for (let i = 0; i < config.numLayers; i++)
        tensorScope(() => attend({ q_BHK, k_BGK, v_BGK }, cache.keysOf(i), rotation, kind));
      return positions_B.clone();
    });
  };

  const ways = waysFor(B * numGroups, M * blockSize, headSize);
  const expected = outputsOf(ways[0]!);
  const withoutMs = stepMs(null);
  for (const way of ways) {
    const [got, again] = [outputsOf(way), outputsOf(way)];
    const gapOf = (x: Tensor, y: Tensor) => x.sub(y).abs().max().item();
    const gap = Math.max(
      ...got.map((x, i) => gapOf(x.to("float32"), expected[i]!.to("float32")) / expected[i]!.abs().max().item()),
    );
    const isSame = got.every((x, i) => gapOf(x, again[i]!) === 0);
    const isAlike = gap < tolerance;
    isSound &&= isSame && isAlike;
    const step = stepMs(way);
    const perLayer = (ms: number) => +((1000 * ms) / config.numLayers).toFixed(2);
    report({
      ...{ shape, B, length, way: way.isUsual ? `${way.name} *` : way.name },
      ...{
        alone: perLayer(aloneMs(way)),
        added: perLayer(step - withoutMs),
        step: +step.toFixed(4),
        without: +withoutMs.toFixed(4),
      },
      ...{ gap: +gap.toExponential(1), isSame, isAlike },
    });
  }
  rotary.dispose();
  cache.dispose();
}

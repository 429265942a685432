/**
 * The time of decode attention alone on one GPU, by how many warps walk a row together: many rows of key heads, kernel after kernel, recorded.
 *
 * Usage: sh run.sh attention [--out file.json]. Caches are taken in turn, so that each is read from memory. Where prompts are shared, 16 rows
 * one after another begin with the same blocks, as the samples of a group do.
 */
import { parseArgs } from "node:util";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { randn, tensor } from "../../src/torch/create.ts";
import { emptyCudaCache } from "../../src/torch/cuda.ts";
import { pagedStream, type StreamCut, streamCutFor } from "../../src/torch/kernels/paged-stream-kernel.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { recordedMs } from "./recorded-time.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({ options: { out: { type: "string" } } });
const [device, dtype, blockSize] = ["cuda", "bfloat16", 16] as const;
/** Kernels in a recording. */
const repeats = 24;
const plain = { window: null, scale: null, softCap: null, sinks_H: null } as const;
const heads = { "135M": [9, 3, 64], "0.5B": [14, 2, 64], "7B": [28, 4, 128] } as const;
const report = rowReport("gpu-attention", values.out);

interface Case {
  readonly shape: keyof typeof heads;
  readonly B: number;
  /** Tokens of the shortest and of the longest row, and of the prompt that 16 rows share. */
  readonly lengths: readonly [number, number];
  readonly shared: number;
}

const cases: readonly Case[] = [
  { shape: "135M", B: 1024, lengths: [112, 112], shared: 64 },
  { shape: "135M", B: 1024, lengths: [224, 224], shared: 64 },
  { shape: "135M", B: 1024, lengths: [384, 384], shared: 64 },
  { shape: "135M", B: 1024, lengths: [64, 384], shared: 0 },
  { shape: "135M", B: 512, lengths: [384, 384], shared: 64 },
  { shape: "135M", B: 256, lengths: [384, 384], shared: 0 },
  { shape: "135M", B: 256, lengths: [1024, 1024], shared: 0 },
  { shape: "0.5B", B: 96, lengths: [1024, 1024], shared: 0 },
  { shape: "0.5B", B: 256, lengths: [256, 256], shared: 0 },
  { shape: "0.5B", B: 256, lengths: [1024, 1024], shared: 0 },
  { shape: "0.5B", B: 256, lengths: [16, 1024], shared: 0 },
  { shape: "0.5B", B: 512, lengths: [1024, 1024], shared: 0 },
  { shape: "0.5B", B: 1024, lengths: [640, 640], shared: 512 },
  { shape: "0.5B", B: 1024, lengths: [1024, 1024], shared: 0 },
  { shape: "7B", B: 64, lengths: [1024, 1024], shared: 0 },
  { shape: "7B", B: 256, lengths: [1024, 1024], shared: 0 },
  { shape: "7B", B: 1024, lengths: [288, 288], shared: 0 },
];

for (const one of cases) {
  const [H, G] = heads[one.shape];
  const usual = streamCutFor(one.B * G * Math.ceil(H / G / 8), one.lengths[1], heads[one.shape][2]);
  if (usual === null) throw new Error("Too few rows.");
  const teams = [...new Set([usual.warps, 4, 2, 1])].filter((team) => team <= usual.warps);
  const cuts = teams.map((team) => ({ ...usual, team }));
  if (usual.warps === 4 && usual.depth === 6)
    for (const team of [4, 2, 1]) cuts.push({ ...usual, team, depth: 3, resident: 4 });
  if (usual.warps === 4 && usual.depth === 6)
    for (const team of [2, 1]) cuts.push({ ...usual, team, depth: 4, resident: 3 });
  tensorScope(() => inferenceMode(() => measure(one, cuts)));
  emptyCudaCache();
}
process.exit(0);

function measure({ shape, B, lengths, shared }: Case, cuts: readonly StreamCut[]): void {
  const [H, G, K] = heads[shape];
  const M = Math.ceil(lengths[1] / blockSize);
  const numBlocks = B * M;
  const bytes = numBlocks * blockSize * G * K * 4;
  const caches = Array.from({ length: Math.max(2, Math.ceil(400e6 / bytes)) }, () => {
    const make = () => randn([numBlocks, blockSize, G, K], { device }).to(dtype);
    return { keys: make(), values: make() };
  });
  const lengthOf = (row: number) => lengths[0] + ((row * 7919) % (lengths[1] - lengths[0] + 1));
  const blockAt = (row: number, i: number) => (i < shared / blockSize ? row - (row % 16) : row) * M + i;
  const numbers = (count: number, value: (i: number) => number) =>
    Int32Array.from({ length: count }, (_, i) => value(i));
  const table_BM = tensor(
    numbers(B * M, (i) => blockAt(Math.floor(i / M), i % M)),
    [B, M],
    { device },
  );
  const positions_B = tensor(
    numbers(B, (row) => lengthOf(row) - 1),
    [B],
    { device },
  );
  const [q_BHK, k_BGK, v_BGK] = [H, G, G].map((count) => randn([B, count, K], { device }).to(dtype));
  const angle = randn([B, K / 2], { device });
  const rotation = { cos_SK: angle.cos(), sin_SK: angle.sin() };
  const numTokens = Array.from({ length: B }, (_, row) => lengthOf(row)).reduce((sum, one) => sum + one, 0);
  const microseconds: Record<string, number> = {};
  for (const cut of cuts) {
    const attend = pagedStream({ positions_B, table_BM }, { numHeads: H, numGroups: G, headSize: K }, cut, true);
    const run = () => {
      for (let i = 0; i < repeats; i++)
        tensorScope(() =>
          attend({ q_BHK: q_BHK!, k_BGK: k_BGK!, v_BGK: v_BGK! }, caches[i % caches.length]!, rotation, plain),
        );
      return q_BHK!.clone();
    };
    microseconds[`team${cut.team}x${cut.resident}`] = +((1000 * recordedMs(run)) / repeats).toFixed(1);
  }
  const best = Math.min(...Object.values(microseconds));
  report({
    shape,
    B,
    lengths,
    shared,
    ...microseconds,
    terabytesPerSecond: +((numTokens * G * K * 4) / best / 1e6).toFixed(2),
  });
}

/**
 * Decode steps through the chain of kernels that overlap, beside the same steps through one kernel after another, on one GPU: how far
 * apart their scores are, whether a step and its draw repeat to the bit, and the time of each, without a draw and of the chain with one.
 *
 * Usage: sh run.sh check-chain [--shapes 0.5B,1.5B,7B] [--rows 1,5,64,100,256] [--length 1024] [--layers 24]
 *
 * The weights are random. A trained model over a cache of random values is ten times as sensitive to rounding as over tokens of its own;
 * for one of those, `exact --model` compares the engine with the trainer.
 */
import { parseArgs } from "node:util";
import { decodeForward } from "../../src/generation/local/decode-forward.ts";
import { PagedCache } from "../../src/generation/local/paged-cache.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { ModelRotary } from "../../src/models/causal-lm/rotary.ts";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { arange, full, ones, rand, randint, zeros } from "../../src/torch/create.ts";
import { emptyCudaCache } from "../../src/torch/cuda.ts";
import { sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import type { StepScores } from "../../src/torch/kernels/score-tiles-kernel.ts";
import { op } from "../../src/torch/operator.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { createShape, shapes } from "./qwen-shape.ts";
import { recordedMs } from "./recorded-time.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "0.5B,1.5B,7B" },
    rows: { type: "string", default: "1,5,64,100,256" },
    length: { type: "string", default: "1024" },
    layers: { type: "string" },
  },
});
const [device, blockSize] = ["cuda", 16] as const;
const length = Number(values.length);
const normal_ = op("aten::normal_");
let isSound = true;
manualSeed(0);

for (const name of values.shapes.split(",")) checkModel(name, createModel(name as keyof typeof shapes));
process.exit(isSound ? 0 : 1);

function createModel(name: keyof typeof shapes): CausalLm {
  const own = values.layers === undefined ? {} : { num_hidden_layers: Number(values.layers) };
  return createShape({ ...shapes[name], ...own } as (typeof shapes)[typeof name], { device, dtype: "bfloat16" });
}

function checkModel(name: string, model: CausalLm): void {
  for (const B of values.rows.split(",").map(Number)) tensorScope(() => inferenceMode(() => check(name, model, B)));
  model.dispose();
  emptyCudaCache();
}

function check(name: string, model: CausalLm, B: number): void {
  const { config } = model;
  const M = length / blockSize;
  const cache = new PagedCache(config, { numBlocks: B * M, blockSize, dtype: "bfloat16", device });
  cache.allocate();
  for (let i = 0; i < config.numLayers; i++)
    for (const one of [cache.keysOf(i).keys, cache.keysOf(i).values]) normal_(one, 0, 0.1);
  const int = (x: Tensor) => x.to("int32");
  const tokens = {
    ids_B: int(randint(0, config.vocabSize, [B], { device })),
    positions_B: int(full([B], length - 1, { device }).sub(arange(0, B, { device }).remainder(7))),
    table_BM: int(arange(0, B * M, { device })).view(B, M),
    stateFrom_B: zeros([B], { device, dtype: "int32" }),
    stateTo_B: zeros([B], { device, dtype: "int32" }),
    temperatures_B: ones([B], { device }),
  };
  const uniforms_B = rand([B], { device });
  const rotary = new ModelRotary(config);
  const step = (isChain: boolean) => {
    const rotations = rotary.rotationsAt(tokens.positions_B, length - 1);
    return decodeForward(model, { ...tokens, rotations }, cache, isChain);
  };
  const run = (isChain: boolean) => step(isChain).scores_BV;
  const draw = ({ scores_BV, tiles }: StepScores) =>
    sampleKernel(scores_BV, tokens.temperatures_B, uniforms_B, { tiles });
  const [drawn, drawnAgain] = [draw(step(true)), draw(step(true))] as const;
  const [usual, chained, again] = [run(false), run(true), run(true)] as const;
  const wide = (x: Tensor) => x.to("float32").logSoftmax(-1);
  const gap = wide(chained).sub(wide(usual)).abs();
  const isRepeated = (one: Tensor, other: Tensor) => one.sub(other).abs().max().item() === 0;
  const isSame = isRepeated(chained, again) && isRepeated(drawn, drawnAgain);
  const [meanGap, maxGap] = [gap.mean().item(), gap.max().item()];
  // Rounding to 16 bits in every layer: as far apart as two orders of the same sums.
  const isAlike = isSame && meanGap < 0.03;
  isSound &&= isAlike;
  const [usualMs, chainMs, drawnMs] = [() => run(false), () => run(true), () => draw(step(true))].map(
    (work) => +recordedMs(work).toFixed(4),
  ) as [number, number, number];
  console.log(
    JSON.stringify({
      name,
      B,
      length,
      meanGap,
      maxGap,
      isSame,
      isAlike,
      usualMs,
      chainMs,
      drawnMs,
      ratio: usualMs / chainMs,
    }),
  );
  rotary.dispose();
  cache.dispose();
}

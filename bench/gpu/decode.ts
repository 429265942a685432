/**
 * Generation with the shapes of Qwen2.5 on one GPU, through the engine: tokens per second at a cache of about 1,024
 * tokens, a long tail of lengths, a group of samples of one prompt, and Hugging Face `generate` in the same run.
 *
 * Usage: sh run.sh decode [--hf bench/python/hf_generate.py] [--out file.json] [--only 64,256] [--shape 0.5B] [--prompt 896] [--tokens 128]
 */
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { uniformAt } from "../../src/generation/local/uniform.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { tensor } from "../../src/torch/create.ts";
import { cudaSynchronize } from "../../src/torch/cuda.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { createShape, qwenShape, shapes } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({
  options: {
    hf: { type: "string" },
    out: { type: "string" },
    tokens: { type: "string", default: "128" },
    only: { type: "string" },
    shape: { type: "string", default: "0.5B" },
    prompt: { type: "string", default: "896" },
  },
});
const shape = shapes[values.shape as keyof typeof shapes];
const promptLength = Number(values.prompt);
const model = createShape(shape, { device: "cuda", dtype: "bfloat16" });
const report = rowReport("gpu-decode", values.out, { shape });

if (values.only === undefined) await compareSteps();
for (const B of (values.only ?? "64,256").split(",").map(Number)) await measureDecode(B);
if (values.only === undefined) {
  await measureLongTail();
  await measureGroup();
}
if (values.hf !== undefined) for (const B of [64, 256]) measureHuggingFace(values.hf, B);

function promptOf(length: number, seed: number): number[] {
  return Array.from({ length }, (_, i) => Math.floor(uniformAt(seed, i) * shape.vocab_size));
}

/** B sequences, by default from 896 to 1,024 tokens of cache: tokens from when all run to when the first ends. The median of three. */
async function measureDecode(B: number): Promise<void> {
  const contextLength = promptLength + Number(values.tokens) + 16;
  const engine = new LocalEngine(model, { contextLength, maxRunning: B, maxStepTokens: 32_768 });
  const run = async (numTokens: number) => {
    let started = 0;
    let begin = 0;
    let counted = 0;
    let end = 0;
    let isOver = false;
    const lengths = new Int32Array(B);
    const generations = await Promise.all(
      Array.from({ length: B }, (_, i) =>
        engine.generate({
          promptIds: promptOf(promptLength, i),
          sampling: { maxTokens: numTokens, seed: i },
          onTokens: () => {
            lengths[i]!++;
            isOver ||= lengths[i] === numTokens;
            if (begin === 0) {
              if (lengths[i] === 1 && ++started === B) begin = performance.now();
            } else if (!isOver) {
              counted++;
              end = performance.now();
            }
          },
        }),
      ),
    );
    return { tokensPerSecond: (counted * 1000) / (end - begin), generations };
  };
  await run(16);
  const runs = [];
  for (let i = 0; i < 3; i++) runs.push(await run(Number(values.tokens)));
  const { tokensPerSecond, generations } = runs.toSorted((a, b) => a.tokensPerSecond - b.tokensPerSecond)[1]!;
  const gap = logprobGap(
    generations
      .slice(0, 8)
      .map(({ tokenIds, modelLogprobs }, i) => ({ prompt: promptOf(promptLength, i), tokenIds, modelLogprobs })),
  );
  report({
    what: "decode",
    shape: values.shape,
    B,
    tokensPerSecond: Math.round(tokensPerSecond),
    msPerStep: (B * 1000) / tokensPerSecond,
    runs: runs.map((one) => Math.round(one.tokensPerSecond)),
    ...gap,
  });
  await engine.close();
}

/** The engine's log-probabilities beside those of a trainer's forward over the same tokens. */
function logprobGap(rows: { prompt: number[]; tokenIds: Int32Array; modelLogprobs: Float32Array }[]): {
  meanGap: number;
  maxGap: number;
} {
  const gaps = rows.flatMap(({ prompt, tokenIds, modelLogprobs }) =>
    tensorScope(() =>
      noGrad(() => {
        const ids = [...prompt, ...tokenIds];
        const int = (list: number[]) =>
          tensor(Int32Array.from(list), [list.length], { device: "cuda", dtype: "int64" });
        const hidden = model.forward(int(ids.slice(0, -1)), packedLayout([ids.length - 1], "cuda"));
        const { logprobs_S } = tokenLogprobs(hidden, model.head, int(ids.slice(1)));
        const trainer = logprobs_S.narrow(0, prompt.length - 1, tokenIds.length).toArray();
        return trainer.map((value, i) => Math.abs(value - modelLogprobs[i]!));
      }),
    ),
  );
  return { meanGap: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length, maxGap: Math.max(...gaps) };
}

/** 256 requests with lengths from 16 to 1,024, beside the time that all their tokens take at full batch speed. */
async function measureLongTail(): Promise<void> {
  const engine = new LocalEngine(model, { contextLength: 1152, maxRunning: 256, maxStepTokens: 32_768 });
  let numPrompts = 0;
  // New prompts every time: none of them is in the cache.
  const run = (lengths: readonly number[]) =>
    Promise.all(
      lengths.map((maxTokens, i) =>
        engine.generate({ promptIds: promptOf(32, numPrompts++), sampling: { maxTokens, seed: i } }),
      ),
    );
  await run(new Array<number>(256).fill(2));
  const time = async (lengths: readonly number[]) => {
    cudaSynchronize();
    const start = performance.now();
    await run(lengths);
    return performance.now() - start;
  };
  const lengths = Array.from({ length: 256 }, (_, i) => 16 + Math.floor(uniformAt(7, i) * 1009));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const fullMs = await time(new Array<number>(256).fill(512));
  const fullSpeed = (256 * 512) / fullMs;
  await time(lengths);
  const tailMs = await time(lengths);
  report({
    what: "long tail",
    tokens: total,
    ms: tailMs,
    fullBatchTokensPerSecond: fullSpeed * 1000,
    ratio: tailMs / (total / fullSpeed),
  });
  await engine.close();
}

async function measureGroup(): Promise<void> {
  const engine = new LocalEngine(model, { contextLength: 1152, maxRunning: 16 });
  const prompt = promptOf(1000, 99);
  await Promise.all(
    Array.from({ length: 16 }, (_, i) => engine.generate({ promptIds: prompt, sampling: { maxTokens: 32, seed: i } })),
  );
  const { prefilledTokens, cachedTokens } = engine.status().counters;
  report({ what: "group of 16 samples of a 1,000-token prompt", prefilledTokens, cachedTokens });
  await engine.close();
}

/** Steps that are launched before the last is read must draw what they draw when each is read first. */
async function compareSteps(): Promise<void> {
  const [ahead, stepByStep] = [await sample(0), await sample(1)];
  const numTokens = ahead.flat().length;
  const numEqual = ahead.flatMap((tokens, i) => tokens.filter((token, t) => token === stepByStep[i]![t])).length;
  report({ what: "steps launched ahead beside steps read one by one", tokens: numTokens, equal: numEqual });
}

/** Replies of many lengths. A request that wants log-probabilities of the best tokens makes the engine read every step. */
async function sample(numTopLogprobs: number): Promise<number[][]> {
  const engine = new LocalEngine(model, { contextLength: 512, maxRunning: 48 });
  const replies = await Promise.all(
    Array.from({ length: 48 }, (_, i) =>
      engine.generate({
        promptIds: promptOf(64, i),
        sampling: { maxTokens: 100 + i, seed: i, temperature: 0.05 },
        numTopLogprobs,
      }),
    ),
  );
  await engine.close();
  return replies.map(({ tokenIds }) => [...tokenIds]);
}

function measureHuggingFace(script: string, B: number): void {
  const input = JSON.stringify({ config: qwenShape, rows: B, promptLength: 896, numTokens: 128 });
  const output = execFileSync("python3", [script], {
    input,
    encoding: "utf8",
    stdio: ["pipe", "pipe", "inherit"],
    timeout: 180_000,
  });
  report({
    what: "Hugging Face generate, static cache, compiled",
    B,
    ...JSON.parse(output.trim().split("\n").at(-1) ?? "{}"),
  });
}

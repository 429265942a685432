/**
 * Every family on a GPU: an engine that decodes in bfloat16, through recorded graphs where the family allows it, next to the whole
 * sequence at once in float32 on the CPU; and a training step on both.
 *
 * In: nothing; the models are random, of a shape that fits the kernels, with every feature of their family. Out: a line per family, and
 * the exit status 1 where one differs. Usage: npm run bundle -- bench/gpu/families.ts, then sh run.sh families on the GPU machine; with `cpu` both
 * sides run there, which tests this script; `cuda qwen3_next,phi3` runs these families alone.
 */
import { decodeProblem } from "../../src/generation/local/decode-path.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { PagedCache } from "../../src/generation/local/paged-cache.ts";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../../src/models/causal-lm/config.ts";
import { type Family, familyNames } from "../../src/models/causal-lm/families/table.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { gradients, noGrad } from "../../src/torch/autograd.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";

const place = process.argv[2] === "cpu" ? "cpu" : "cuda";
const numRows = 24;
const numTokens = 100;
let isSound = true;
const wanted = process.argv[3]?.split(",");
for (const family of familyNames.filter((name) => wanted?.includes(name) ?? true)) {
  for (const headSize of [64, 96, 128, 256]) await checkFamily(family, headSize);
}
process.exit(isSound ? 0 : 1);

async function checkFamily(family: Family, headSize: number): Promise<void> {
  const config = shapeOf(family, headSize);
  const onCpu = tinyModel(config, { dtype: "float32" });
  // Scaled so that scores stay in the range of trained models, and rounded so that both sides hold the same weights.
  noGrad(() => {
    for (const parameter of onCpu.parameters())
      tensorScope(() => parameter.copy_((parameter.shape.length > 1 ? parameter.mul(0.2) : parameter).to("bfloat16")));
  });
  const model = copyTo(onCpu, config, "bfloat16");
  const cache = new PagedCache(config, { numBlocks: 1, blockSize: 16, dtype: "bfloat16", device: place });
  const problem = decodeProblem(config, cache);
  cache.dispose();
  const { gap, ms } = await decodingGap(model, onCpu);
  const gradientGap = trainingGap(onCpu, config);
  // Rounding alone moves log-probs too: those of the same weights in bfloat16 over whole sequences are the measure.
  const isAlike = gap.mean < 1.5 * gap.ofRounding + 0.001 && gradientGap < 1e-3;
  if (!isAlike) isSound = false;
  console.log(
    JSON.stringify({
      family,
      headSize,
      isRecorded: problem === null,
      logprobGap: gap,
      gradientGap,
      ms: Math.round(ms),
      isAlike,
    }),
  );
  model.dispose();
  onCpu.dispose();
}

/** Two layers, with a window shorter than the sequences where the family has one. */
function shapeOf(family: Family, headSize: number): CausalLmConfig {
  const plain = tinyConfig(family);
  const { slidingWindow, rotarySize, linearAttention } = plain.features;
  const hasWindow = slidingWindow !== null || ["gemma2", "gemma3_text", "gpt_oss", "mistral", "phi3"].includes(family);
  return tinyConfig(family, {
    width: 256,
    numHeads: 4,
    numKeyValueHeads: 2,
    headSize,
    mlpWidth: 512,
    vocabSize: 512,
    maxPositions: 256,
    features: {
      ...(hasWindow ? { slidingWindow: 40, fullLayers: [false, true] } : {}),
      ...(rotarySize === null ? {} : { rotarySize: headSize / 2 }),
      // The sizes of published models, and others that the kernel takes.
      linearAttention: linearAttention && {
        ...linearAttention,
        kernelSize: 4,
        keySize: 128,
        valueSize: headSize > 64 ? 128 : 32,
      },
    },
  });
}

function copyTo(source: CausalLm, config: CausalLmConfig, dtype: "bfloat16" | "float32"): CausalLm {
  const copy = new CausalLm(config, { dtype, device: place });
  const weights = new Map(source.namedParameters());
  noGrad(() => {
    for (const [name, parameter] of copy.namedParameters()) parameter.copy_(weights.get(name)!);
  });
  return copy;
}

/** How far the log-probs of an engine's tokens are from those of the whole sequences. */
async function decodingGap(model: CausalLm, reference: CausalLm) {
  const engine = new LocalEngine(model, { contextLength: 256, maxRunning: 32, numBlocks: 600 });
  const prompts = Array.from({ length: numRows }, (_, row) =>
    Array.from({ length: 3 + row * 5 }, (_, i) => 3 + ((i * 31 + row * 17) % 500)),
  );
  const generate = (maxTokens: number) =>
    Promise.all(prompts.map((promptIds, seed) => engine.generate({ promptIds, sampling: { maxTokens, seed } })));
  await generate(8);
  const startMs = performance.now();
  const made = await generate(numTokens);
  const ms = performance.now() - startMs;
  await engine.close();
  const gaps = made.map(({ tokenIds, modelLogprobs }, row) => {
    const ids = [...prompts[row]!, ...tokenIds];
    const [expected, rounded] = [reference, model].map((one) =>
      wholeLogprobs(one, ids).slice(prompts[row]!.length - 1),
    );
    const from = (logprobs: ArrayLike<number>) => expected!.map((logprob, i) => Math.abs(logprob - logprobs[i]!));
    return { own: from(modelLogprobs), ofRounding: from(rounded!) };
  });
  const own = gaps.flatMap((gap) => gap.own);
  const gap = { mean: mean(own), ofRounding: mean(gaps.flatMap((row) => row.ofRounding)), largest: Math.max(...own) };
  return { gap, ms };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The log-prob of every token after the first. */
function wholeLogprobs(model: CausalLm, ids: readonly number[]): number[] {
  const { device } = model.embedding;
  const column = (values: readonly number[]) =>
    tensor(Int32Array.from(values), [values.length], { dtype: "int64", device });
  return tensorScope(() =>
    noGrad(() => {
      const hidden_SD = model.forward(column(ids), packedLayout([ids.length], device)).narrow(0, 0, ids.length - 1);
      const { softCap, head } = model;
      return tokenLogprobs(hidden_SD, head, column(ids.slice(1)), { softCap }).logprobs_S.toArray();
    }),
  );
}

/** The largest difference between gradients on the GPU and on the CPU, both in float32, over the norm of each. */
function trainingGap(onCpu: CausalLm, config: CausalLmConfig): number {
  const onGpu = copyTo(onCpu, config, "float32");
  const norms = [onCpu, onGpu].map((model) =>
    tensorScope(() => {
      const { device } = model.embedding;
      const lengths = [50, 78];
      const ids = Int32Array.from({ length: 128 }, (_, i) => 3 + ((i * 37) % 500));
      const ids_S = tensor(ids, [128], { dtype: "int64", device });
      const hidden_SD = model.forward(ids_S, packedLayout(lengths, device));
      const { logprobs_S } = tokenLogprobs(hidden_SD, model.head, ids_S, { softCap: model.softCap });
      const parameters = model.parameters();
      return gradients([logprobs_S.mean()], parameters).map((gradient) => gradient?.norm().item() ?? 0);
    }),
  );
  onGpu.dispose();
  return Math.max(...norms[0]!.map((norm, i) => Math.abs(norm - norms[1]![i]!) / Math.max(norm, 1e-4)));
}

/**
 * GRPO of a model of the shape of Qwen2.5-7B on one GPU, all parameters, engine included, from run config to the last step: tokens per second, peak
 * memory, and the share of the GPU's arithmetic.
 *
 * Weights are random, drawn on the GPU and written as a Hugging Face folder: speed and memory do not depend on their values. `--tokenizer` is a folder
 * whose tokenizer is borrowed. Tokens are those of rows that are trained on, prompts included.
 *
 * npm run bundle -- bench/gpu/large-model.ts && sh pack/run.sh large-model --tokenizer <folder> [--moments 8-bit] [--offload] [--write] [--out file]
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { countParameters, peakBytes } from "../../src/run/estimate-memory.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { cudaDeviceCount, cudaMemory, emptyCudaCache, resetCudaPeak } from "../../src/torch/cuda.ts";
import { op } from "../../src/torch/operator.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { describeMachine } from "../report.ts";
import { wordRows } from "./word-task.ts";

const { values } = parseArgs({
  options: {
    tokenizer: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "large-model") },
    layers: { type: "string", default: "28" },
    width: { type: "string", default: "3584" },
    steps: { type: "string", default: "3" },
    groups: { type: "string", default: "16" },
    "max-tokens": { type: "string", default: "512" },
    moments: { type: "string", default: "8-bit" },
    offload: { type: "boolean", default: false },
    /** Only writes the weights, for a later call. */
    write: { type: "boolean", default: false },
    sleep: { type: "string" },
    microbatch: { type: "string", default: "16384" },
    out: { type: "string" },
  },
});
if (values.tokenizer === undefined) throw new Error("--tokenizer is missing: a folder with a tokenizer.");
/** Dense bfloat16 products of an H200, as measured. */
const PEAK_FLOPS = 790e12;
const isOnGpu = cudaDeviceCount() > 0;
const width = Number(values.width);
const shape = {
  ...{ model_type: "qwen2", vocab_size: 152064, hidden_size: width, intermediate_size: Math.round(width * 5.2857) },
  ...{
    num_hidden_layers: Number(values.layers),
    num_attention_heads: width / 128,
    num_key_value_heads: Math.min(4, width / 128),
  },
  ...{ max_position_embeddings: 32768, rms_norm_eps: 1e-6, rope_theta: 1_000_000, tie_word_embeddings: false },
  ...{ torch_dtype: isOnGpu ? "bfloat16" : "float32" },
};
const config = parseConfig(shape, "the shape of Qwen2.5-7B");
const clock = () => performance.now();
const normal_ = op("aten::normal_");
const fill_ = op("aten::fill_.Scalar");

if (!existsSync(join(values.folder, "config.json"))) writeModel(values.folder, values.tokenizer);
if (values.write) process.exit(0);
const result = { ...(await measure()), shape, options: values, machine: describeMachine() };
console.log(JSON.stringify({ ...result, shape: undefined, machine: undefined }));
if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`);
process.exit(0);

function writeModel(folder: string, tokenizer: string): void {
  const startedMs = clock();
  const model = new CausalLm(config, { device: isOnGpu ? "cuda" : "cpu", dtype: isOnGpu ? "bfloat16" : "float32" });
  noGrad(() => {
    for (const [name, parameter] of model.namedParameters()) {
      if (parameter.shape.length >= 2) normal_(parameter, 0, 0.02);
      else fill_(parameter, /norm\.weight$/i.test(name) ? 1 : 0);
    }
  });
  const names = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json"];
  const found = names.filter((name) => existsSync(join(tokenizer, name)));
  saveCausalLm(model, folder, { files: new Map(found.map((name) => [name, readFileSync(join(tokenizer, name))])) });
  model.dispose();
  if (isOnGpu) emptyCudaCache();
  console.error(`written in ${((clock() - startedMs) / 1000).toFixed(1)} s`);
}

async function measure() {
  const [groups, groupSize, maxTokens] = [Number(values.groups), 8, Number(values["max-tokens"])];
  // A reward that differs within a group, whatever random weights say.
  const score = ({ reply }: { readonly reply: string }) => ({ value: reply.length % 2 });
  const { config: run, plan } = await prepareRun(
    {
      model: { path: values.folder },
      data: {
        type: "rows",
        rows: wordRows("training", groups * Number(values.steps), 1),
        shuffle: false,
        name: "words",
      },
      rewards: { default: { type: "custom", name: "parity", score } },
      rollout: {
        ...{ groupsPerStep: groups, groupSize, maxInFlight: groups * groupSize, contextLength: maxTokens + 256 },
        sampling: { maxTokens },
      },
      engine: { maxRunning: groups * groupSize },
      algorithm: { type: "grpo" },
      training: {
        optimizer: { lr: 1e-6, moments: values.moments },
        ...{ maxTokensPerMicrobatch: Number(values.microbatch), recompute: true },
        strategy: { offload: values.offload ? "optimizer" : "none" },
      },
      placement: { engine: { sleep: values.sleep === undefined ? null : values.sleep === "true" } },
      loop: { type: "sync", steps: Number(values.steps) },
      // A checkpoint of this size takes longer than a step; the script ends before the last one.
      checkpoint: { every: 0, minutes: null },
    },
    [],
    {},
  );
  for (const line of plan.lines) console.error(line);
  const steps: { readonly seconds: Record<string, number>; readonly replyTokens: number }[] = [];
  let seconds: Record<string, number> = {};
  const folder = mkdtempSync(join(tmpdir(), "large-run-"));
  if (isOnGpu) resetCudaPeak(0);
  const startedMs = clock();
  let peakGB = 0;
  let isDone = () => {};
  const done = new Promise<void>((resolve) => {
    isDone = resolve;
  });
  const training = trainRun(run, {
    folder,
    signal: new AbortController().signal,
    clock,
    isResumed: false,
    tracker: {
      ...silentTracker,
      note: (text) => console.error(text),
      span: async (stage, work) => {
        const start = clock();
        const done = await work();
        seconds[stage] = (seconds[stage] ?? 0) + (clock() - start) / 1000;
        return done;
      },
      log: (step, kind, metrics) => {
        if (kind !== "train") return;
        if (step === run.loop.steps) setImmediate(isDone);
        steps.push({ seconds, replyTokens: metrics["experience/loss_tokens"] ?? 0 });
        seconds = {};
        // Of this process, which has the trainer and its engine. The last files are written after it.
        if (isOnGpu) peakGB = cudaMemory(0).peakBytes / 1e9;
        const times = Object.entries(steps.at(-1)!.seconds).map(([stage, spent]) => `${stage} ${spent.toFixed(1)} s`);
        console.error(
          `step ${step}: ${times.join(", ")}, gap ${metrics["train/sampler_gap"]?.toFixed(5)}, ${peakGB.toFixed(1)} GB`,
        );
      },
    },
  });
  await Promise.race([training, done]);
  rmSync(folder, { recursive: true, force: true });
  // In the first step graphs are recorded and allocators grow.
  const counted = steps.length === 1 ? steps : steps.slice(1);
  const sum = (pick: (step: (typeof steps)[number]) => number) =>
    counted.reduce((total, step) => total + pick(step), 0);
  const total = (stage: string) => sum((step) => step.seconds[stage] ?? 0);
  const numParameters = countParameters(config);
  const computed = numParameters - config.vocabSize * config.width;
  const replyTokens = sum((step) => step.replyTokens);
  const all = sum((step) => Object.values(step.seconds).reduce((a, b) => a + b, 0));
  return {
    numParameters,
    stages: Object.fromEntries(["rollout", "train", "sync"].map((stage) => [stage, total(stage) / counted.length])),
    steps,
    replyTokensPerSecond: {
      rollout: replyTokens / total("rollout"),
      train: replyTokens / total("train"),
      step: replyTokens / all,
    },
    // 6 FLOP per parameter and token of a reply; tokens of prompts come on top, so this is a lower bound. Computing again does not count.
    trainShareOfPeak: (6 * computed * replyTokens) / total("train") / PEAK_FLOPS,
    peakGB,
    plannedGB: peakBytes(plan.memory, run.loop.type === "sync") / 1e9,
    wholeSeconds: (clock() - startedMs) / 1000,
  };
}

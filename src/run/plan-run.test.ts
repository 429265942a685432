import { expect, test } from "vitest";
import { exampleConfig } from "../../test/cli/example-run.ts";
import { buildRecipe } from "../algorithms/recipes/table.ts";
import { parseConfig } from "../models/causal-lm/config.ts";
import { type PresetName, presetConfig } from "../models/causal-lm/presets.ts";
import { countParameters, estimateMemory } from "./estimate-memory.ts";
import { planRun } from "./plan-run.ts";

const machine = { device: "cpu", dtype: "float32", memoryBytes: 16e9 } as const;
const grpo = buildRecipe({ type: "grpo" });
const nano = presetConfig("nano", 32);

/** Qwen2.5-0.5B. */
const qwen = parseConfig(
  {
    model_type: "qwen2",
    vocab_size: 151936,
    hidden_size: 896,
    intermediate_size: 4864,
    num_hidden_layers: 24,
    num_attention_heads: 14,
    num_key_value_heads: 2,
    max_position_embeddings: 32768,
    rms_norm_eps: 1e-6,
    rope_theta: 1000000,
    tie_word_embeddings: true,
  },
  "config.json",
);

const hybrid = parseConfig(
  {
    model_type: "qwen3_5_text",
    vocab_size: 1000,
    hidden_size: 256,
    intermediate_size: 512,
    num_hidden_layers: 4,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 64,
    max_position_embeddings: 4096,
    linear_num_key_heads: 8,
    linear_num_value_heads: 8,
  },
  "config.json",
);

test("an engine in 8-bit floats is counted: a byte a weight, and keys and values with a scale of four bytes for every head", () => {
  const gpu = { device: "cuda", dtype: "bfloat16", memoryBytes: 140e9 } as const;
  const partsWith = (...overrides: string[]) =>
    planRun(exampleConfig("rollout.contextLength=1024", "engine.maxRunning=64", ...overrides), grpo, gpu, qwen).memory;
  const engine = (what: string, ...overrides: string[]) =>
    partsWith(...overrides).find((part) => part.owner === "engine" && part.what === what)?.bytes;
  // The trainer's weights are lent to an engine that computes with them as they are.
  expect(engine("weights")).toBeUndefined();
  // 24 layers of [896 -> 1152], [896 -> 896], [896 -> 9728] and [4864 -> 896] in one byte each, in place of two.
  const linear = 24 * (896 * 1152 + 896 * 896 + 896 * 9728 + 4864 * 896);
  expect(engine("weights", "engine.quantization=fp8")).toBe(2 * countParameters(qwen) - linear);
  expect(engine("KV cache")).toBe(64 * 1024 * 24 * 2 * 2 * 128);
  expect(engine("KV cache", "engine.cacheQuantization=fp8")).toBe(64 * 1024 * 24 * 2 * 2 * (64 + 4));
});

test("the plan says the batch arithmetic in words", () => {
  const config = exampleConfig(
    "rollout.groupsPerStep=512",
    "rollout.groupSize=16",
    "training.minibatch=512",
    "training.schedule.warmup=20",
    "training.schedule.unit=rollout-steps",
    "training.schedule.type=cosine",
    "loop.steps=200",
  );
  const plan = planRun(config, grpo, machine, nano);
  expect(plan.lines.slice(0, 3)).toEqual([
    "512 prompts x 16 samples = 8192 trajectories per step; minibatch 512 -> 16 updates per rollout step",
    "20 warm-up rollout steps = 320 updates",
    "200 steps = 3200 updates, learning rate 0.001 with cosine decay",
  ]);
  expect(plan.updatesPerStep).toBe(16);
});

test("quantized weights are named with what an export merges into", () => {
  const config = exampleConfig("model.lora.rank=8", "model.quantization=nf4");
  const line =
    'linear layers in nf4, frozen, under adapters; "reroll export --merge" adds the adapters to the base as its files have it';
  expect(planRun(config, grpo, machine, nano).lines).toContain(line);
  expect(planRun(exampleConfig(), grpo, machine, nano).lines.join()).not.toContain("export --merge");
});

test("an asynchronous run whose engine shares the trainer's GPU is told that they take turns on it", () => {
  const gpu = { device: "cuda", dtype: "bfloat16", memoryBytes: 140e9 } as const;
  const linesOf = (machine: Parameters<typeof planRun>[2], ...settings: string[]) =>
    planRun(exampleConfig(...settings), grpo, machine, nano).lines.join();
  const asynchronous = 'loop={"type":"async"}';
  expect(linesOf(gpu, asynchronous)).toContain("they take turns on it");
  for (const other of [
    linesOf(gpu),
    linesOf(machine, asynchronous),
    linesOf(gpu, asynchronous, 'placement.engine.devices="1"'),
  ])
    expect(other).not.toContain("they take turns on it");
});

test("on a GPU the plan says which way the engine decodes, and why it is not the fast one", () => {
  const gpu = { device: "cuda", dtype: "bfloat16", memoryBytes: 80e9 } as const;
  const on = (place: Parameters<typeof planRun>[2], model: typeof qwen) =>
    planRun(exampleConfig("engine.maxRunning=4"), grpo, place, model);
  expect(on(gpu, qwen).lines).toContain("the engine decodes through CUDA graphs");
  expect(on(gpu, hybrid).decoding).toBe("through CUDA graphs");
  expect(on(gpu, { ...qwen, headSize: 96 }).decoding).toBe("through CUDA graphs");
  expect(on({ ...gpu, dtype: "float32" }, qwen).lines).toContain(
    "the engine decodes operator by operator, many times slower than through CUDA graphs: its weights are float32, and the CUDA decode path is for 16 bits",
  );
  expect(on(machine, nano).decoding).toBe(null);
  expect(on(machine, nano).lines.join()).not.toContain("decodes");
});

test("states of linear attention are counted: two of each running sequence, and a quarter more slots", () => {
  const parts = (running: number) =>
    planRun(exampleConfig(`engine.maxRunning=${running}`), grpo, { ...machine, memoryBytes: 1e12 }, hybrid).memory;
  const states = (running: number) => parts(running).find(({ what }) => what === "states of linear attention")!.bytes;
  // 3 layers of 8 heads with 128 x 128 values, and 3 tokens of 3,072 channels, all in float32.
  const perSequence = 3 * (8 * 128 * 128 + 3 * (2 * 8 * 128 + 8 * 128)) * 4;
  expect([states(4), states(64)]).toEqual([2 * 5 * perSequence, 2 * 80 * perSequence]);
  // One layer of four keeps keys and values.
  const { bytes } = parts(4).find(({ what }) => what === "KV cache")!;
  expect(bytes).toBe(4 * exampleConfig().rollout.contextLength * 2 * 2 * 64 * 4);
});

test("epochs multiply updates, and warm-up in updates is told in rollout steps", () => {
  const config = exampleConfig("algorithm.numEpochs=3", "training.minibatch=8", "training.schedule.warmup=9");
  expect(planRun(config, buildRecipe({ type: "grpo", numEpochs: 3 }), machine, nano).lines.slice(0, 2)).toEqual([
    "4 prompts x 4 samples = 16 trajectories per step; minibatch 8 x 3 epochs -> 6 updates per rollout step",
    "9 warm-up updates = 1.5 rollout steps",
  ]);
});

test.each([
  ["nano", 108_928],
  ["micro", 857_472],
  ["mini", 5_123_712],
  ["small", 25_191_936],
] as const)("%s has as many parameters as its table says", (name: PresetName, count) => {
  expect(countParameters(presetConfig(name, 32))).toBe(count);
});

test("parameters of Qwen2.5-0.5B are those of its recompute", () => {
  expect(countParameters(qwen)).toBe(494_032_768);
});

test("the trainer's estimate is near the peak that was measured on an H200", () => {
  // bench/gpu/train-step.ts: 16 rows of 1024 tokens, policy-gradient form, bfloat16 AdamW without master weights, 19.1 GB.
  const config = exampleConfig(
    "rollout.contextLength=1024",
    "rollout.groupsPerStep=16",
    "training.optimizer.masterWeights=false",
  );
  const facts = { model: qwen, isOnGpu: true, dtype: "bfloat16", needsReference: false, hasCritic: false } as const;
  const trainer = (recompute: boolean) =>
    estimateMemory({ ...config, training: { ...config.training, recompute } }, facts)
      .filter(({ owner }) => owner === "trainer")
      .reduce((sum, { bytes }) => sum + bytes, 0);
  expect(trainer(false) / 19.1e9).toBeGreaterThan(0.9);
  expect(trainer(false) / 19.1e9).toBeLessThan(1.1);
  // Recomputed, cross-entropy: 6.8 GB. The float32 scores of other losses take 0.8 GB more.
  expect(trainer(true) / 7.6e9).toBeGreaterThan(0.9);
  expect(trainer(true) / 7.6e9).toBeLessThan(1.1);
});

test("adapters need neither gradients nor moments for the rest, and no reference of their own", () => {
  const facts = { model: qwen, isOnGpu: true, dtype: "bfloat16", needsReference: true, hasCritic: false } as const;
  const parts = (...sets: string[]) => estimateMemory(exampleConfig(...sets), facts);
  const bytes = (list: ReturnType<typeof parts>, what: string) => list.find((part) => part.what === what)!.bytes;
  expect(bytes(parts(), "optimizer")).toBe(494_032_768 * 12);
  // Rank 8 on all linear layers: 24 x 8 x (896 + 896 + 2 (896 + 128) + 896 + 896 + 3 (896 + 4864)) parameters.
  expect(bytes(parts("model.lora.rank=8"), "optimizer")).toBe(24 * 8 * (1792 + 2048 + 1792 + 17280) * 12);
  expect(parts().some(({ owner }) => owner === "reference")).toBe(true);
  expect(parts("model.lora.rank=8").some(({ owner }) => owner === "reference")).toBe(false);
});

test("every role is counted with its own shape: critic, reference, teachers and reward models", () => {
  const needs = { needsReference: true, hasCritic: true } as const;
  const facts = { model: nano, isOnGpu: false, dtype: "float32", ...needs } as const;
  const config = exampleConfig('reference="models/other"');
  const judge = { shape: { ...qwen, dtype: "bfloat16" }, device: "cpu" } as const;
  const roles = { critic: qwen, reference: nano, teachers: [nano, qwen], rewardModels: [judge] };
  const weights = estimateMemory(config, { ...facts, roles }).filter(({ what }) => what === "weights");
  const [own, other] = [nano, qwen].map((shape) => 4 * countParameters(shape)) as [number, number];
  expect(weights.map(({ owner, bytes }) => [owner, bytes])).toEqual([
    ["trainer", own],
    ["critic", other],
    ["reference", own],
    ["teacher", own],
    ["teacher", other],
    ["reward model", other / 2],
    ["engine", own],
  ]);
});

test("a reward model on another device is named, and takes no memory of the run's own", () => {
  const judge = { shape: { ...qwen, dtype: "bfloat16" }, device: "cuda:1" } as const;
  const roles = { critic: null, reference: null, teachers: [], rewardModels: [judge] };
  const alone = planRun(exampleConfig(), grpo, machine, nano);
  const plan = planRun(exampleConfig(), grpo, machine, nano, roles);
  expect(plan.totalBytes).toBe(alone.totalBytes);
  expect(plan.lines.slice(alone.lines.length)).toEqual(["  reward model, on cuda:1: weights 988.1 MB"]);
});

test("the cache of the engine is full contexts of all sequences, up to a limit", () => {
  const facts = { model: nano, isOnGpu: false, dtype: "float32", needsReference: false, hasCritic: false } as const;
  const cache = (...sets: string[]) => estimateMemory(exampleConfig(...sets), facts).at(-1)!;
  // Keys and values: 2 x 2 layers x 4 heads x 16 numbers x 4 bytes = 1024 bytes a token; 256 tokens, 10 sequences.
  expect(cache("engine.maxRunning=10")).toMatchObject({ owner: "engine", what: "KV cache", bytes: 1024 * 256 * 10 });
  expect(cache("engine.maxRunning=10000").bytes).toBe(1e9);
  expect(
    estimateMemory(exampleConfig('engine.remote={"url":"http://x","kind":"vllm"}'), facts).map(({ owner }) => owner),
  ).not.toContain("engine");
});

test("a run that does not fit is refused with the largest part and what to change", () => {
  const small = { ...machine, memoryBytes: 8e9 };
  const plan =
    (...sets: string[]) =>
    () =>
      planRun(exampleConfig("rollout.contextLength=4096", ...sets), grpo, small, qwen);
  expect(plan()).toThrow(
    /needs about .* GB, and cpu has 8\.0 GB: trainer weights 2\.0 GB, .* Set training\.recompute to true, or lower training\.maxTokensPerMicrobatch\.$/,
  );
  expect(plan("training.recompute=true", "training.maxTokensPerMicrobatch=4096")).toThrow(
    /It fits with training\.optimizer\.moments: "8-bit"\.$/,
  );
  expect(
    plan(
      "training.recompute=true",
      "training.maxTokensPerMicrobatch=4096",
      "model.lora.rank=8",
      "rollout.maxInFlight=4",
    ),
  ).not.toThrow();
});

test("a rank takes its part of what a trainer alone would take", () => {
  const gpu = { device: "cuda:0", dtype: "bfloat16", memoryBytes: 141e9 } as const;
  const P = 2 * countParameters(qwen);
  const parts = (strategy: object, more: Partial<typeof gpu & { numRanksHere: number }> = {}) => {
    const config = exampleConfig("training.ranks=4", `training.strategy=${JSON.stringify(strategy)}`);
    const { memory } = planRun(config, grpo, { ...gpu, ...more }, qwen);
    const of = (what: string) => memory.find((part) => part.owner === "trainer" && part.what === what)?.bytes;
    return { weights: of("weights"), gradients: of("gradients"), optimizer: of("optimizer"), lines: memory };
  };
  expect(parts({})).toMatchObject({ weights: P, gradients: P, optimizer: 6 * P });
  expect(parts({ zero: 1 })).toMatchObject({ weights: P, gradients: 1.25 * P, optimizer: 1.5 * P });
  expect(parts({ zero: 1, tensor: 2 })).toMatchObject({ weights: P / 2, gradients: 0.75 * P, optimizer: 1.5 * P });
  expect(parts({ zero: 2, offload: "optimizer" })).toMatchObject({ weights: P, optimizer: 0 });
  // The embedding is there whole, and one of 24 layers.
  const outside = 2 * 151936 * 896;
  expect(parts({ zero: 3 }).weights).toBeCloseTo(outside + (P - outside) * (1 / 4 + 1 / 24), -3);
  // Two of the ranks on this device.
  expect(parts({ zero: 1 }, { numRanksHere: 2 })).toMatchObject({ weights: 2 * P, optimizer: 3 * P });
});

test("a run with ranks says what each takes, and one that does not fit shards before it gives anything up", () => {
  const gpu = { device: "cuda:0", dtype: "bfloat16", memoryBytes: 141e9 } as const;
  const plan = (memoryBytes: number, ...sets: string[]) =>
    planRun(exampleConfig("training.ranks=8", ...sets), grpo, { ...gpu, memoryBytes }, qwen);
  expect(plan(141e9, "training.strategy.zero=2").lines.at(-1)).toMatch(
    /^ {2}8 ranks \(zero 2\), on a device each: each takes \d+\.\d GB$/,
  );
  expect(() => plan(9e9, "training.recompute=true", "rollout.maxInFlight=4")).toThrow(
    /^This run needs about .* It fits with training\.strategy\.zero: 1\.$/,
  );
});

test("a context beyond what a recompute was made for is refused", () => {
  const config = exampleConfig('model={"path":"x"}', "rollout.contextLength=40000");
  expect(() => planRun(config, grpo, machine, qwen)).toThrow(
    "rollout.contextLength is more than the model was made for: got 40000, and its config says 32768",
  );
});

test("a run whose critic or reference has no room is told of a GPU that nothing is on", () => {
  const ppo = buildRecipe({ type: "ppo", klLoss: { coefficient: 0.1 } });
  const plan = (memoryBytes: number, numGpus: number) =>
    planRun(
      exampleConfig('algorithm={"type":"ppo","klLoss":{"coefficient":0.1}}', "training.recompute=true"),
      ppo,
      { device: "cuda:0", dtype: "bfloat16", memoryBytes, numGpus },
      qwen,
    );
  const needed = plan(141e9, 1).totalBytes;
  // The reference takes 1 GB, and the critic more than that.
  expect(() => plan(needed - 0.5e9, 2)).toThrow(/ It fits with placement\.reference\.devices: "1"\.$/);
  expect(() => plan(needed - 2e9, 2)).toThrow(/ It fits with placement\.critic\.devices: "1"\.$/);
  expect(() => plan(needed - 0.5e9, 1)).toThrow(/ It fits with placement\.reference\.sleep: true\.$/);
});

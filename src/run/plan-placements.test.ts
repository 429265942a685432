import { expect, test } from "vitest";
import { exampleConfig } from "../../test/cli/example-run.ts";
import type { RerollError } from "../errors/reroll-error.ts";
import { parseConfig } from "../models/causal-lm/config.ts";
import { peakBytes } from "./estimate-memory.ts";
import { placementLines, planPlacements } from "./plan-placements.ts";

/** Qwen2.5-7B. */
const model = parseConfig(
  {
    ...{ model_type: "qwen2", vocab_size: 152064, hidden_size: 3584, intermediate_size: 18944 },
    ...{ num_hidden_layers: 28, num_attention_heads: 28, num_key_value_heads: 4, max_position_embeddings: 32768 },
    ...{ rms_norm_eps: 1e-6, rope_theta: 1000000, tie_word_embeddings: false },
  },
  "config.json",
);
const facts = { model, isOnGpu: true, dtype: "bfloat16", needsReference: false, hasCritic: false } as const;
const tokens = { promptTokens: 512, replyTokens: 1024 };
const sets = [
  "rollout.groupsPerStep=64",
  "rollout.groupSize=16",
  "rollout.contextLength=2048",
  "rollout.maxInFlight=1024",
];
const plan = (numGpus: number, gigabytes: number, ...more: string[]) =>
  planPlacements(exampleConfig(...sets, ...more), facts, { numGpus, memoryBytes: gigabytes * 1e9 }, tokens);

test("phases that take turns need the larger of the two, and those that overlap need both", () => {
  const parts = [
    { owner: "trainer", what: "weights", bytes: 10 },
    { owner: "trainer", what: "activations", bytes: 5, phase: "training" },
    { owner: "engine", what: "KV cache", bytes: 7, phase: "rollout" },
  ] as const;
  expect(peakBytes(parts, true)).toBe(17);
  expect(peakBytes(parts, false)).toBe(22);
});

test("a synchronous run on eight GPUs is fastest with both roles on all of them, which take turns", () => {
  const placements = plan(8, 180, "training.recompute=true");
  expect(placements.map(({ keys }) => keys)).toEqual([
    'training.ranks 8, placement.engine.devices "0-7"',
    'training.ranks 4, placement.engine.devices "4-7"',
    'training.ranks 2, placement.engine.devices "2-7"',
    'training.ranks 1, placement.engine.devices "1-7"',
  ]);
  // 7.6 billion parameters in bfloat16 with gradients, a float32 copy and moments: 16 bytes each, and 2 of the engine's own.
  const [together, apart] = placements;
  expect(together!.devices).toHaveLength(1);
  expect(together!.devices[0]!.bytes).toBeGreaterThan(18 * 7.6e9);
  expect(apart!.devices[1]!.parts.every(({ owner }) => owner === "engine")).toBe(true);
  // Half of the trainers take twice as long, but for what the host does of each trajectory.
  expect(apart!.seconds.train / together!.seconds.train).toBeCloseTo(2, 1);
  expect(placementLines(placements, { numGpus: 8, memoryBytes: 180e9 })[0]).toMatch(
    /^1\. training\.ranks 8, .*: \d+ s per step \(rollout .* s, training .* s, weights .* s\)$/,
  );
});

test("an asynchronous run overlaps what is on different GPUs", () => {
  const sync = plan(8, 180, "training.recompute=true");
  const async = plan(8, 180, "training.recompute=true", 'loop={"type":"async"}');
  const apart = (placements: typeof sync) => placements.find(({ keys }) => keys.startsWith("training.ranks 4"))!;
  const { rollout, train, sync: weights } = apart(async).seconds;
  expect(apart(async).stepSeconds).toBeCloseTo(Math.max(rollout, train) + weights, 6);
  expect(apart(sync).stepSeconds).toBeCloseTo(rollout + train + weights, 6);
});

test("ranks shard as little as lets them fit", () => {
  const keys = (gigabytes: number, ...more: string[]) =>
    plan(8, gigabytes, "training.recompute=true", ...more).map((placed) => placed.keys);
  expect(keys(180)[0]).toBe('training.ranks 8, placement.engine.devices "0-7"');
  expect(keys(100)[0]).toBe('training.ranks 8 with strategy { zero: 1 }, placement.engine.devices "0-7"');
  expect(keys(70)[0]).toBe('training.ranks 8 with strategy { zero: 2 }, placement.engine.devices "0-7"');
  // A strategy that the run file chooses stays.
  const chosen = keys(100, 'training.strategy={"zero":2,"tensor":4}');
  expect(chosen.every((one) => one.includes("with strategy { zero: 2, tensor: 4 }"))).toBe(true);
  expect(chosen.some((one) => one.startsWith("training.ranks 2 "))).toBe(false);
});

test("what fits nowhere is refused with its role, its need and the nearest change that would fit", () => {
  expect(() => plan(1, 170)).toThrow(
    /fits in no placement on 1 GPUs of 170\.0 GB: a device needs \d\d\d\.\d GB in the placement that needs the least, most of it the trainer with .* It fits with training\.recompute: true\./,
  );
  expect(() => plan(1, 80)).toThrow(
    'It fits with training.recompute: true with training.strategy.offload: "optimizer".',
  );
  expect(() => plan(1, 12)).toThrow("Take a smaller model, a shorter rollout.contextLength, or GPUs with more memory.");
});

test("a refusal names one need however large the GPUs are, and GPUs of that size are enough", () => {
  const roles = { ...facts, needsReference: true, hasCritic: true };
  const config = exampleConfig(...sets, 'algorithm={"type":"ppo","klLoss":{"coefficient":0.1}}');
  for (const numGpus of [1, 2, 8]) {
    const place = (memoryBytes: number) => planPlacements(config, roles, { numGpus, memoryBytes }, tokens);
    const refusal = (memoryBytes: number) => {
      try {
        place(memoryBytes);
      } catch (error) {
        return (error as RerollError).details as { readonly role: string; readonly bytes: number };
      }
      return null;
    };
    const { role, bytes } = refusal(1e9)!;
    for (const share of [0.1, 0.3, 0.5, 0.7, 0.9, 0.999]) expect(refusal(share * bytes)).toMatchObject({ role, bytes });
    expect(place(bytes)).not.toHaveLength(0);
  }
});

test("where the trainer does not fit with its critic and reference, they get a GPU of their own", () => {
  const roles = { ...facts, needsReference: true, hasCritic: true };
  const ppo = ['algorithm={"type":"ppo","klLoss":{"coefficient":0.1}}', "training.recompute=true"];
  const place = (gigabytes: number, ...more: string[]) =>
    planPlacements(
      exampleConfig(...sets, ...ppo, ...more),
      roles,
      { numGpus: 4, memoryBytes: gigabytes * 1e9 },
      tokens,
    );
  const isApart = ({ keys }: { readonly keys: string }) => keys.includes("placement.critic");
  // Everything of one rank: 16 bytes per parameter for the policy and for the critic, 2 for the reference.
  expect(place(400).some(isApart)).toBe(false);
  const apart = place(180, 'training.optimizer.moments="8-bit"', 'critic.optimizer.moments="8-bit"').filter(isApart);
  expect(apart.map(({ keys }) => keys)).toEqual([
    'training.ranks 1, placement.engine.devices "2-3", placement.reference.devices "1", placement.critic.devices "1"',
    'training.ranks 2, placement.engine.devices "3", placement.reference.devices "2", placement.critic.devices "2"',
  ]);
  // One GPU of roles is what both wait for: the other is worth more to the engines.
  expect(apart[0]!.seconds.train).toBe(apart[1]!.seconds.train);
  expect(apart[1]!.devices.map(({ devices, parts }) => [devices, ...new Set(parts.map(({ owner }) => owner))])).toEqual(
    [
      ["GPUs 0-1", "trainer"],
      ["GPUs 2", "reference", "critic"],
      ["GPUs 3", "engine"],
    ],
  );
});

test("an engine that does not fit one GPU is split over the fewest that are enough, and whole ones come first where they fit", () => {
  const lora = ["training.recompute=true", 'model.lora={"rank":16}'];
  expect(plan(8, 80, ...lora).map(({ keys }) => keys.includes("tensor"))).not.toContain(true);
  const [apart] = plan(8, 30, ...lora).filter(({ keys }) => keys.startsWith("training.ranks 4"));
  expect(apart!.keys).toMatch(/^training\.ranks 4.*, placement\.engine\.devices "4-7", tensor 2$/);
  const sum = (bytes: readonly number[]) => bytes.reduce((total, one) => total + one, 0);
  const engine = apart!.devices[1]!.parts;
  // Half of 7.6 billion parameters in bfloat16, and of the cache of 256 contexts: 28 layers of 4 heads, of which 2 are here, of 128 keys and values.
  expect(sum(engine.filter(({ what }) => what === "weights").map(({ bytes }) => bytes)) / 7.6e9).toBeCloseTo(1, 1);
  expect(sum(engine.filter(({ what }) => what === "KV cache").map(({ bytes }) => bytes))).toBe(
    256 * 2048 * 28 * 2 * 2 * 128 * 2,
  );
  expect(() => plan(1, 80, "placement.engine.tensor=2")).toThrow(/^1 GPUs cannot be dealt out to .* engines of 2/);
});

import { describe, expect, test } from "vitest";
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { packedLayout } from "../models/causal-lm/token-layout.ts";
import { Random } from "../random/random.ts";
import { noGrad } from "../torch/autograd.ts";
import { native } from "../torch/binding.ts";
import { tensor } from "../torch/create.ts";
import { AdamW } from "../torch/optim/adamw.ts";
import { constantRate } from "../torch/optim/schedule.ts";
import { tensorScope } from "../torch/scope.ts";
import { TokenTrainer, type TokenTrainerOptions } from "./token-trainer.ts";

const vocabSize = 12;
const options: TokenTrainerOptions = {
  temperature: 1,
  maxTokensPerMicrobatch: 4096,
  minibatchTrajectories: 0,
  maxGradNorm: 1,
  recompute: false,
  seed: 1,
};

/** Log-probabilities of the next token after these. */
function nextLogprobs(model: CausalLm, ids: readonly number[]): number[] {
  return noGrad(() =>
    tensorScope(() => {
      const hidden_SD = model.forward(tensor([...ids], { dtype: "int64" }), packedLayout([ids.length]));
      return model
        .logits(hidden_SD.narrow(0, ids.length - 1, 1))
        .squeeze(0)
        .logSoftmax(0)
        .toArray();
    }),
  );
}

function drawFrom(logprobs: readonly number[], random: Random): number {
  let left = random.uniform();
  for (const [id, logprob] of logprobs.entries()) {
    left -= Math.exp(logprob);
    if (left < 0) return id;
  }
  return logprobs.length - 1;
}

interface SampleParts {
  readonly prompt: readonly number[];
  readonly reply: readonly number[];
  readonly logprobs: readonly number[];
  readonly reward: number;
  readonly group: number;
  readonly trajectory: number;
}

function sampleOf({ prompt, reply, logprobs, reward, group, trajectory }: SampleParts): TokenSample {
  const tokenIds = Int32Array.from([...prompt, ...reply]);
  const lossMask = new Uint8Array(tokenIds.length).fill(1, prompt.length);
  const samplerLogprobs = new Float32Array(tokenIds.length);
  samplerLogprobs.set(logprobs, prompt.length);
  const rewards = new Float32Array(tokenIds.length);
  rewards[tokenIds.length - 1] = reward;
  const versions = new Int32Array(tokenIds.length);
  const place = { group, trajectory, turn: 0, stateKey: "s", isTruncated: false };
  return { tokenIds, lossMask, samplerLogprobs, versions, rewards, ...place };
}

/** Replies of one token; the reward is 1 where it is the prompt's last token plus one. */
function play(model: CausalLm, numGroups: number, groupSize: number, random: Random): TokenSample[] {
  const prompts = [1, 2, 3].map((last) => [0, last]);
  const known = prompts.map((prompt) => nextLogprobs(model, prompt));
  return Array.from({ length: numGroups }, (_, group) => {
    const which = random.integer(prompts.length);
    const [prompt, logprobs] = [prompts[which]!, known[which]!];
    return Array.from({ length: groupSize }, (_, i) => {
      const reply = drawFrom(logprobs, random);
      const reward = reply === prompt[1]! + 1 ? 1 : 0;
      const facts = { prompt, reply: [reply], logprobs: [logprobs[reply]!], reward, group };
      return sampleOf({ ...facts, trajectory: group * groupSize + i });
    });
  }).flat();
}

function trainerOf(model: CausalLm, choice: RecipeChoice, changes: Partial<TokenTrainerOptions> = {}): TokenTrainer {
  return new TokenTrainer({
    model,
    recipe: buildRecipe(choice),
    // An epsilon above the rounding of gradients, which AdamW would otherwise make as large as everything else.
    optimizer: new AdamW(model.namedParameters(), { lr: 3e-3, weightDecay: 0, eps: 1e-5 }),
    schedule: constantRate(),
    reference: null,
    critic: null,
    options: { ...options, ...changes },
  });
}

const choices: readonly RecipeChoice[] = [
  { type: "grpo" },
  { type: "grpo", bypass: {} },
  { type: "gigpo", episodeWeight: 0, bypass: {}, reduction: { type: "token-mean" } },
  { type: "rloo" },
  { type: "reinforce-pp" },
];

test.each(choices)("$type learns to write the rewarded token", async (choice) => {
  const model = createPreset("nano", vocabSize, 1);
  const trainer = trainerOf(model, choice);
  const random = new Random(3);
  const rewardOf = (samples: readonly TokenSample[]) =>
    samples.reduce((sum, { rewards }) => sum + rewards.at(-1)!, 0) / samples.length;
  const first = rewardOf(play(model, 64, 8, random));
  for (let step = 0; step < 60; step++) await trainer.step({ samples: play(model, 16, 8, random), version: step });
  expect(first).toBeLessThan(0.2);
  expect(rewardOf(play(model, 64, 8, random))).toBeGreaterThan(0.8);
  model.dispose();
});

/** Replies of several lengths, several turns per trajectory, twins among them. */
function mixedSamples(): TokenSample[] {
  const random = new Random(5);
  return Array.from({ length: 24 }, (_, i) => {
    const prompt = Array.from({ length: 1 + random.integer(4) }, () => random.integer(vocabSize));
    const reply = Array.from({ length: 1 + random.integer(5) }, () => random.integer(vocabSize));
    const twin = { prompt: [1, 2, 3], reply: [4, 5], logprobs: [-2, -2.5] };
    const own = { prompt, reply, logprobs: reply.map(() => -1 - 2 * random.uniform()) };
    return sampleOf({ ...(i % 4 === 0 ? twin : own), reward: random.integer(2), group: i % 6, trajectory: i });
  });
}

/** The weights after some steps on the same samples, as one list. */
async function weightsAfter(choice: RecipeChoice, changes: Partial<TokenTrainerOptions>): Promise<number[]> {
  const model = createPreset("nano", vocabSize, 2);
  const trainer = trainerOf(model, choice, changes);
  for (let step = 0; step < 2; step++) await trainer.step({ samples: mixedSamples(), version: step });
  const weights = [...model.namedParameters().values()].flatMap((parameter) =>
    tensorScope(() => parameter.detach().reshape(-1).toArray()),
  );
  model.dispose();
  return weights;
}

describe.each(["grpo", "dapo", "gspo", "dr-grpo"] as const)("%s", (type) => {
  const choice = (type === "dr-grpo" ? { type, maxResponseLength: 8 } : { type }) as RecipeChoice;
  test("the cut into microbatches does not change what is learned", async () => {
    const whole = await weightsAfter(choice, {});
    const cut = await weightsAfter(choice, { maxTokensPerMicrobatch: 16 });
    const gap = whole.reduce((most, value, i) => Math.max(most, Math.abs(value - cut[i]!)), 0);
    expect(gap).toBeLessThan(2e-4);
  });
});

test("activations computed twice give the same weights", async () => {
  const kept = await weightsAfter({ type: "grpo" }, {});
  const twice = await weightsAfter({ type: "grpo" }, { recompute: true });
  expect(twice).toEqual(kept);
});

test("a rollout is cut into updates of whole trajectories", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const trainer = trainerOf(model, { type: "grpo", numEpochs: 2 }, { minibatchTrajectories: 10 });
  const { numUpdates, metrics } = await trainer.step({ samples: mixedSamples(), version: 3 });
  expect(numUpdates).toBe(6);
  expect(metrics["train/staleness"]).toBeCloseTo(3);
  expect(metrics["train/sampler_gap"]).toBeGreaterThan(0.1);
  model.dispose();
});

describe.each<[string, RecipeChoice]>([
  ["with an anchor", { type: "grpo" }],
  ["in bypass mode", { type: "grpo", bypass: {} }],
])("numbers of tokens %s", (_, choice) => {
  test("on policy, the log-probs are the sampler's and the entropies those of its distribution; advantages are the recipe's", async () => {
    const model = createPreset("nano", vocabSize, 1);
    const prompt = [0, 2];
    const distribution = nextLogprobs(model, prompt);
    const rewards = [1, 0, 0, 0];
    // The last two are twins.
    const samples = [3, 4, 5, 5].map((reply, i) =>
      sampleOf({
        prompt,
        reply: [reply],
        logprobs: [distribution[reply]!],
        reward: rewards[i]!,
        group: 0,
        trajectory: i,
      }),
    );
    const step = trainerOf(model, choice).step({ samples, version: 0 }, { numbersOf: [0, 2, 3] });
    const { numbers, metrics } = await step;
    expect([...numbers!.keys()].sort()).toEqual([0, 2, 3]);
    const entropy = -distribution.reduce((sum, logprob) => sum + Math.exp(logprob) * logprob, 0);
    expect(metrics["policy/entropy"]).toBeCloseTo(entropy, 5);
    for (const [row, { policyLogprobs, entropies, advantages, lossMask }] of numbers!) {
      expect(policyLogprobs[2]).toBeCloseTo(samples[row]!.samplerLogprobs[2]!, 5);
      expect(entropies[2]).toBeCloseTo(entropy, 5);
      // Mean 1/4; deviation sqrt((9/16 + 3/16) / 3) = 1/2.
      expect(advantages[2]).toBeCloseTo(row === 0 ? 1.5 : -0.5, 4);
      expect([...lossMask]).toEqual([0, 0, 1]);
      for (const values of [policyLogprobs, entropies, advantages]) expect([...values.slice(0, 2)]).toEqual([0, 0]);
    }
    model.dispose();
  });
});

test("numbers are of the weights before the step, however it is cut into updates and microbatches", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const samples = mixedSamples();
  const expected = samples.map(({ tokenIds, lossMask }) =>
    [...tokenIds].map((id, i) => (lossMask[i] === 1 ? nextLogprobs(model, [...tokenIds.slice(0, i)])[id]! : 0)),
  );
  const cut = { minibatchTrajectories: 5, maxTokensPerMicrobatch: 16 };
  const everyRow = samples.map((_, row) => row);
  const { numbers } = await trainerOf(model, { type: "grpo" }, cut).step(
    { samples, version: 0 },
    { numbersOf: everyRow },
  );
  const gaps = [...numbers!].map(([row, { policyLogprobs }]) =>
    Math.max(...policyLogprobs.map((logprob, i) => Math.abs(logprob - expected[row]![i]!))),
  );
  expect(gaps).toHaveLength(samples.length);
  expect(Math.max(...gaps)).toBeLessThan(1e-4);
  model.dispose();
});

test("the loss mask of the numbers is without the tokens that the recipe masks", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const samples = mixedSamples().map((sample, i) => ({ ...sample, isTruncated: i === 1 }));
  const trainer = trainerOf(model, { type: "grpo", masksTruncated: true });
  const { numbers } = await trainer.step({ samples, version: 0 }, { numbersOf: [1, 2] });
  expect([...numbers!.get(1)!.lossMask]).toEqual(Array.from(samples[1]!.lossMask, () => 0));
  expect(numbers!.get(2)!.lossMask).toEqual(samples[2]!.lossMask);
  model.dispose();
});

test("a recipe that needs a reference or a critic says so before the first step", () => {
  const model = createPreset("nano", vocabSize, 1);
  expect(() => trainerOf(model, { type: "grpo", klLoss: { coefficient: 0.1 } })).toThrow(/needs a reference model/);
  expect(() => trainerOf(model, { type: "ppo" })).toThrow(/needs a critic/);
  model.dispose();
});

test("steps leave no memory behind", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const trainer = trainerOf(model, { type: "grpo" }, { maxTokensPerMicrobatch: 40, minibatchTrajectories: 8 });
  await trainer.step({ samples: mixedSamples(), version: 0 });
  const before = native.memoryStats();
  for (let step = 0; step < 5; step++) {
    const { numbers } = await trainer.step(
      { samples: mixedSamples(), version: 0 },
      { numbersOf: step < 2 ? [] : [1, 4] },
    );
    expect(numbers?.size).toBe(step < 2 ? undefined : 2);
  }
  const after = native.memoryStats();
  expect(after.liveTensors).toBe(before.liveTensors);
  expect(after.liveBytes).toBe(before.liveBytes);
  model.dispose();
});

test("an update whose gradients are not finite is skipped: weights and optimizer stay, the schedule moves on", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const optimizer = new AdamW(model.namedParameters(), { lr: 1e-3, weightDecay: 0 });
  const trainer = new TokenTrainer({
    ...{ model, optimizer, recipe: buildRecipe({ type: "reinforce" }), reference: null, critic: null, options },
    schedule: (numUpdates) => 1 / (1 + numUpdates),
  });
  const samples = play(model, 2, 4, new Random(3));
  const spiked = samples.map((sample, i) => (i > 0 ? sample : { ...sample, rewards: sample.rewards.map(() => 3e38) }));
  const stateOf = () => [
    ...model.parameters().map((value) => value.toArray()),
    ...[...optimizer.stateDict().tensors.values()].map((value) => value.toArray()),
  ];
  expect((await trainer.step({ samples, version: 0 })).metrics["train/skipped_updates"]).toBe(0);
  const before = stateOf();
  for (const numSkippedInRow of [1, 2]) {
    const { metrics, ...report } = await trainer.step({ samples: spiked, version: 0 });
    expect(report).toMatchObject({ numUpdates: 1, numSkippedInRow });
    expect(metrics).toMatchObject({ "train/skipped_updates": 1, "train/lr": 1e-3 / (1 + numSkippedInRow) });
    expect(metrics).not.toHaveProperty("train/loss");
    expect(stateOf()).toEqual(before);
  }
  const { metrics, numSkippedInRow } = await trainer.step({ samples, version: 0 });
  expect(numSkippedInRow).toBe(0);
  expect(Number.isFinite(metrics["train/loss"])).toBe(true);
  expect(stateOf()).not.toEqual(before);
});

/** Every metric that the stages of a run give is described in src/flow/metrics.ts. */
import { expect, test } from "vitest";
import { addMetrics } from "../../src/algorithms/losses/loss-metrics.ts";
import { buildRecipe, type RecipeChoice, type RecipeName, recipes } from "../../src/algorithms/recipes/table.ts";
import { buildSamples } from "../../src/experience/sample-builder.ts";
import type { LossMetrics } from "../../src/flow/batch-statistics.ts";
import { describeMetric } from "../../src/flow/metrics.ts";
import { selectRows } from "../../src/flow/token-batch.ts";
import type { TrajectoryGroup } from "../../src/flow/trajectory.ts";
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { rolloutMetrics } from "../../src/rollout/rollout-report.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { SpanRecorder } from "../../src/tracking/span-recorder.ts";
import { ExampleTrainer } from "../../src/training/example-trainer.ts";
import { supervised } from "../../src/training/objectives/supervised.ts";
import { TokenTrainer } from "../../src/training/token-trainer.ts";
import { buildOptimizer, optimizerOptions } from "../../src/training/trainer-options.ts";
import { createSharedMemorySync } from "../../src/weight-sync/shared-memory-sync.ts";
import { randomRollout } from "../algorithms/random-rollout.ts";

/** Families that take anything in: a name that is described by one of these has been forgotten in the table. */
const vague = [
  "A number that the policy loss reports; see the algorithm.",
  "A metric of the rollout on held-out prompts.",
];

function undescribed(metrics: object): readonly string[] {
  return Object.keys(metrics).filter((name) => {
    const info = describeMetric(name);
    return info === undefined || vague.includes(info.meaning);
  });
}

const groups = [group(0, [1, 0]), group(1, [0, 1])];
const report = { failed: [], filtered: [], numGivenUp: 0, numStale: 0, numAborted: 0, numDroppedPrompts: 0 };

test("those of a rollout and of its samples", () => {
  const metrics = { ...rolloutMetrics(groups, report, 1), ...buildSamples(groups).metrics };
  expect(Object.keys(metrics).length).toBeGreaterThan(20);
  expect(undescribed(metrics)).toEqual([]);
});

test("those of a training step with correction, KL and entropy", async () => {
  const model = createPreset("nano", 32, 1);
  const optimizer = () => buildOptimizer(model.namedParameters(), optimizerOptions.parse({ lr: 1e-4 }));
  const limits = { maxTokensPerMicrobatch: 512, maxGradNorm: 1, recompute: false };
  const algorithm = {
    type: "grpo",
    correction: { importance: { level: "token", threshold: 2 }, rejections: { token_k1: "0.01_100" } },
    klLoss: { coefficient: 0.1 },
    entropy: { type: "fixed", coefficient: 0.01 },
  } as const;
  const trainer = new TokenTrainer({
    model,
    recipe: buildRecipe(algorithm as RecipeChoice),
    optimizer: optimizer(),
    schedule: () => 1,
    reference: model,
    critic: null,
    options: { ...limits, temperature: 1, minibatchTrajectories: 0, seed: 1 },
  });
  const { samples } = buildSamples(groups);
  const { metrics } = await trainer.step({ samples, version: 1 });
  expect(Object.keys(metrics)).toEqual(
    expect.arrayContaining(["train/loss_kl", "policy/entropy", "train/sampler_gap", "train/staleness"]),
  );
  expect(undescribed(metrics)).toEqual([]);

  const tuning = new ExampleTrainer({
    ...{ model, objective: supervised(), trainable: model.trainableParameters() },
    ...{ optimizer: optimizer(), schedule: () => 1, options: limits },
  });
  const examples = samples.map((sample) => ({ sequences: [sample] }));
  expect(undescribed((await tuning.step(examples)).metrics)).toEqual([]);
  const held = Object.entries(await tuning.evaluate(examples));
  expect(undescribed(Object.fromEntries(held.map(([name, value]) => [`validation/${name}`, value])))).toEqual([]);
});

const required: Partial<Record<RecipeName, Record<string, unknown>>> = { "dr-grpo": { maxResponseLength: 16 } };
const correction = {
  importance: { level: "sequence", threshold: 3, isSelfNormalized: true },
  rejections: { token_k1: "0.5_2.0", seq_max_k2: 2.5 },
};

test.each(Object.keys(recipes) as RecipeName[])("those of %s", (name) => {
  const extra = name === "decoupled-ppo" ? {} : { correction };
  const terms = { klLoss: { coefficient: 0.1 }, entropy: { type: "fixed", coefficient: 0.01 } };
  const recipe = recipes[name].build({ type: name, ...required[name], ...terms, ...extra } as RecipeChoice);
  const names = tensorScope(() => {
    const { batch, outputs } = randomRollout(3, [3, 2], 8);
    const scored = recipe.score(batch);
    const rows = selectRows(
      scored,
      scored.groupOf.map((_, row) => row),
    );
    const { metrics } = recipe.loss({ rows, ...outputs }, scored.denominators);
    const corrected = recipe.correctionMetrics({ rows, ...outputs });
    return { ...scored.metrics, ...addMetrics([metrics as LossMetrics]), ...corrected };
  });
  expect(Object.keys(names).length).toBeGreaterThan(5);
  expect(undescribed(names)).toEqual([]);
});

test("those of weight sync and of the timeline", async () => {
  const sync = createSharedMemorySync({ withWeights: (use) => use(new Map()), engines: [], clock: () => 0 });
  const timeline = new SpanRecorder(0);
  for (const phase of ["rollout", "train", "sync", "validate", "checkpoint"] as const) {
    timeline.beginStage(phase, 1);
    timeline.endStage(phase, 2);
  }
  const metrics = { ...(await sync.publish(1)), ...timeline.endStep(1, 10).metrics };
  expect(Object.keys(metrics).length).toBeGreaterThan(8);
  expect(undescribed(metrics)).toEqual([]);
});

test("a metric that nobody has described is found", () => {
  expect(undescribed({ "policy/new_thing": 1, "train/lr": 1, other: 1 })).toEqual(["policy/new_thing", "other"]);
});

function group(index: number, rewards: readonly number[]): TrajectoryGroup {
  const prompt = { id: `p${index}`, domain: "d", seed: index, messages: [], truth: null, extra: {} };
  const id = `g${index}`;
  const trajectories = rewards.map((total, sampleIndex) => ({
    id: `${id}/${sampleIndex}`,
    groupId: id,
    prompt,
    sampleIndex,
    seed: sampleIndex,
    turns: [
      {
        promptIds: Int32Array.of(1, 2, 3),
        reply: {
          tokenIds: Int32Array.of(4, 5 + sampleIndex, 6),
          samplerLogprobs: Float32Array.of(-3, -3.5, -3.2),
          drawLogprobs: Float32Array.of(-3, -3.5, -3.2),
          modelLogprobs: Float32Array.of(-3, -3.5, -3.2),
          versions: Int32Array.of(0, 0, 1),
          cacheVersions: Int32Array.of(0, 0, 0),
        },
        replyText: "",
        messages: [],
        finish: "stop",
        reward: 0,
        metrics: {},
        startedMs: 0,
        generateMs: 1,
        envMs: 0,
      } as const,
    ],
    end: { kind: "completed" } as const,
    reward: { total, score: total, parts: { exact: total } },
    metrics: { success: total },
    timings: { startedMs: 0, queuedMs: 0, generateMs: 1, envMs: 0, rewardMs: 0, totalMs: 1 },
  }));
  return { id, prompt, trajectories };
}

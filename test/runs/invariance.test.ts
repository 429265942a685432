/** Whole runs: metrics and weights do not depend on how the work was spread, over requests, threads, microbatches and ranks. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type SmallRun, trainSmall } from "./small-run.ts";

const lake = { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null };
const rollout = { groupsPerStep: 2, groupSize: 4, contextLength: 64, sampling: { maxTokens: 2 } };
// An epsilon above the rounding of gradients: AdamW divides by their size.
const training = { optimizer: { lr: 1e-3, eps: 1e-3 }, minibatch: 4 };
const plain = { engine: { threads: 1 }, rollout: { maxInFlight: 1 }, training: { threads: 1 } };
const inFlight = { ...plain, rollout: { maxInFlight: 64 }, training: { threads: 1, maxTokensPerMicrobatch: 64 } };
const inThreads = { ...inFlight, engine: { threads: 2 }, training: { ...inFlight.training, threads: 2 } };
const onRanks = (strategy: object) => ({ ...inFlight, training: { ...inFlight.training, ranks: 2, strategy } });

const mixtureFolder = mkdtempSync(join(tmpdir(), "reroll-mixture-"));
for (const file of ["config.json", "model.safetensors"])
  cpSync(`fixtures/hf-tiny/qwen3-moe/${file}`, join(mixtureFolder, file));
for (const file of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"])
  cpSync(`fixtures/tokenizer/${file}`, join(mixtureFolder, file));
afterAll(() => rmSync(mixtureFolder, { recursive: true }));

const cases = {
  "grpo with a row per turn, in threads": { algorithm: { type: "grpo" }, context: "turn", spread: inThreads },
  "ppo with a row per turn, in microbatches, weights sharded over two ranks": {
    algorithm: { type: "ppo" },
    context: "turn",
    spread: onRanks({ zero: 3 }),
  },
  "grpo with adapters, weights and adapters sharded over two ranks": {
    algorithm: { type: "grpo" },
    context: "conversation",
    model: { preset: "nano", lora: { rank: 4, alpha: 8 } },
    spread: onRanks({ zero: 3 }),
  },
  "ppo with a critic, layers of both in two stages, an engine in a process that is sent a layer at a time": {
    algorithm: { type: "ppo" },
    context: "conversation",
    spread: { ...onRanks({ pipeline: 2 }), placement: { engine: { workers: "processes" } } },
  },
  "grpo of a mixture of experts, which are dealt out to two ranks with their own rows": {
    algorithm: { type: "grpo" },
    context: "conversation",
    model: { path: mixtureFolder },
    spread: onRanks({ zero: 1, expert: 2 }),
  },
  "reinforce-pp in bypass mode, self-normalized and with rejections, layers split over two ranks": {
    algorithm: {
      type: "reinforce-pp",
      bypass: {},
      correction: {
        importance: { level: "sequence", threshold: 2, isSelfNormalized: true },
        rejections: { token_k1: "0.98_1.02" },
      },
    },
    context: "conversation",
    spread: onRanks({ tensor: 2 }),
  },
} as const;

test.each(Object.entries(cases))("%s", async (_, { algorithm, context, spread, ...rest }) => {
  const run = (options: typeof plain) =>
    trainSmall({
      ...options,
      ...rest,
      envs: { lake },
      rollout: { ...rollout, ...options.rollout, context },
      training: { ...training, ...options.training },
      algorithm,
      loop: { type: "sync", steps: 2 },
    });
  const one = await run(plain);
  expectSame(await run(spread), one);
  // In the second minibatch of a step the policy has moved away from the sampler, and bypass mode rejects tokens.
  const kept = one.metrics.at(-1)!["score/kept_fraction"]!;
  if ("bypass" in algorithm) expect(kept).toBeLessThan(1);
  else expect(kept).toBe(1);
});

function expectSame(got: SmallRun, expected: SmallRun): void {
  expect(got.trajectories.map(({ reward, turns }) => [reward.total, turns.map(({ tokenIds }) => tokenIds)])).toEqual(
    expected.trajectories.map(({ reward, turns }) => [reward.total, turns.map(({ tokenIds }) => tokenIds)]),
  );
  // Before the first update nothing has been added up in another order: log-probs are equal in all digits, wherever the engine is and has its weights from.
  const drawn = ({ trajectories }: SmallRun) =>
    trajectories.filter(({ step }) => step === 1).map(({ turns }) => turns.map((turn) => [...turn.samplerLogprobs]));
  expect(drawn(got)).toEqual(drawn(expected));
  for (const [step, metrics] of expected.metrics.entries()) {
    expect(Object.keys(got.metrics[step]!)).toEqual(Object.keys(metrics));
    for (const [name, value] of Object.entries(metrics)) {
      // Weights that lie whole on the engine's device are not copied to it.
      if (name === "sync/bytes") continue;
      // verl's spread of weights is the root of a difference: near 0 it has half the digits.
      const apart = Math.abs(got.metrics[step]![name]! - value) / Math.max(1, Math.abs(value));
      expect(apart, name).toBeLessThan(/_std$/.test(name) ? 5e-3 : 5e-5);
    }
  }
  const gap = expected.weights.reduce((most, value, i) => Math.max(most, Math.abs(value - got.weights[i]!)), 0);
  expect(gap).toBeLessThan(1e-5);
}

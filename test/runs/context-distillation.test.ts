/** The model as its own teacher, with a context that it is to do without, and second tries after a reflection; from run files. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TextEnv } from "../../src/envs/text-env.ts";
import { type LakeRun, trainLake } from "./lake-run.ts";
import { trainSmall } from "./small-run.ts";

const rows = ["apple", "pear", "plum", "fig"].map((fruit) => ({ question: `a ${fruit}?`, answer: fruit.length }));
const asked = {
  data: { type: "rows", rows },
  rollout: { groupsPerStep: 4, groupSize: 2, contextLength: 96, sampling: { maxTokens: 4 } },
  training: { optimizer: { lr: 2e-3 } },
  loop: { type: "sync", steps: 6 },
};

test.each(["start", "current"] as const)(
  "the policy without a context comes closer to the %s weights that read the answer in it",
  async (weights) => {
    const teachers = { default: { type: "self", weights, context: "The answer is {truth}." } };
    const { metrics, trajectories } = await trainSmall({
      ...asked,
      distillation: { teachers, form: "full", divergence: "forward", rewards: false },
    });
    const gaps = metrics.map((step) => step["distillation/forward_kl"]!);
    expect(gaps[0]).toBeGreaterThan(0);
    expect(gaps.at(-1)).toBeLessThan(0.8 * gaps[0]!);
    expect(metrics.every((step) => step["distillation/untaught_rows"] === 0)).toBe(true);
    // What was sampled, and what ratios are taken of, has no context in it: the trainer finds the engine's log-probs again.
    expect(Math.max(...metrics.map((step) => step["train/sampler_gap_max"]!))).toBeLessThan(1e-3);
    expect(JSON.stringify(trajectories.map(({ turns }) => turns.map(({ messages }) => messages)))).not.toContain(
      "answer is",
    );
  },
);

test("a context that names a column which no row has ends with the columns there are", async () => {
  const teachers = { default: { type: "self", context: "See {hint}." } };
  const run = trainSmall({ ...asked, distillation: { teachers, rewards: false } });
  await expect(run).rejects.toThrow(/names \{hint\}, which the row does not have/);
});

/** One word is asked for; a first try never succeeds, and a second one always does. */
function secondTimeLucky() {
  const numPlayed = new Map<number, number>();
  return {
    type: "custom",
    words: { words: ["say", "yes", "no", "think"], endWords: ["yes", "no"] },
    makePrompt: (seed: number) => ({ id: `p${seed}`, domain: "luck", seed, messages: [], truth: null, extra: {} }),
    makeEnv: (_: unknown, seed: number): TextEnv => {
      numPlayed.set(seed, (numPlayed.get(seed) ?? 0) + 1);
      const reward = numPlayed.get(seed) === 2 ? 1 : 0;
      return {
        start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "say" }] } }),
        step: () => ({ kind: "terminated", reward, metrics: {} }),
      } as unknown as TextEnv;
    },
  };
}

test("failed tries are tried again, and what succeeds is learned without a part in the baseline", async () => {
  const { metrics, trajectories, weights } = await trainSmall({
    envs: { luck: secondTimeLucky() },
    rollout: { groupsPerStep: 3, groupSize: 4, contextLength: 32, sampling: { maxTokens: 2 } },
    reflection: { perGroup: 2, prompt: "think", context: "{reflection} no", maxTokens: 2 },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 1 },
  });
  const [step] = metrics;
  expect(step).toMatchObject({ "reflection/tries": 6, "reflection/success_share": 1, "reflection/lessons": 6 });
  // All first tries failed: rewards teach nothing, and the loss is that of the lessons.
  expect(step).toMatchObject({ "reward/mean": 0, "score/reward": 0, "score/advantage_std": 0 });
  expect(step!["train/loss_reflection"]).toBeGreaterThan(0);
  expect(step!["train/loss"]).toBeCloseTo(step!["train/loss_reflection"]!, 6);
  const tried = trajectories.filter(({ secondTry }) => secondTry !== undefined);
  expect(tried.map(({ sampleIndex }) => sampleIndex)).toEqual([0, 1, 0, 1, 0, 1]);
  expect(tried[0]).toMatchObject({ reward: { total: 0 }, secondTry: { isLearned: true, reward: { total: 1 } } });
  const without = await trainSmall({
    envs: { luck: secondTimeLucky() },
    rollout: { groupsPerStep: 3, groupSize: 4, contextLength: 32, sampling: { maxTokens: 2 } },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 1 },
  });
  expect(without.trajectories.map(({ turns }) => turns[0]!.replyText)).toEqual(
    trajectories.map(({ turns }) => turns[0]!.replyText),
  );
  expect(without.weights).not.toEqual(weights);
});

describe("second tries of several turns", () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-reflection-"));
  const lake = { type: "frozen-lake", prompt: "compact", size: 2, isSlippery: false, maxTurns: 4, answerTags: null };
  const changes = {
    reflection: { successAt: 0.5, perGroup: 4, context: "{reflection}", maxTokens: 2 },
    envs: { lake },
    rollout: { groupsPerStep: 4, groupSize: 4 },
    training: { optimizer: { lr: 1e-3, eps: 1e-3 }, minibatch: 8 },
  } as const;
  const steps = (count: number) => ({ ...changes, model, loop: { type: "sync", steps: count } as const });
  let model: { path: string };
  let whole: LakeRun;

  beforeAll(async () => {
    // A model that moves, so that some tries succeed.
    const warmStart = { type: "play", steps: 4, turnsPerStep: 64 } as const;
    const warm = await trainLake(root, { envs: { lake }, warmStart, loop: { type: "sync", steps: 0 } });
    model = { path: join(warm.folder, "warm-start/model") };
    whole = await trainLake(root, steps(1));
  }, 180_000);
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  test("two ranks learn from them what one does", async () => {
    expect(whole.train.get(1)!["reflection/lessons"]).toBeGreaterThan(0);
    const ranked = await trainLake(root, { ...steps(1), training: { ...changes.training, ranks: 2 } });
    for (const name of ["train/loss_reflection", "train/grad_norm", "reflection/divergence"])
      expect(ranked.train.get(1)![name]).toBeCloseTo(whole.train.get(1)![name]!, 5);
  });
});

test.each([
  [{ rollout: { filter: { dropEqualRewards: true } } }, /dropEqualRewards drops groups in which every try failed/],
  [
    { rollout: { groupSize: 2 }, reflection: { perGroup: 3 } },
    /reflection\.perGroup must be at most rollout\.groupSize/,
  ],
  [{ agent: async () => 1 }, /reflection needs an environment or rows of data/],
] as const)("a reflection that cannot work is refused: %o", async (changes, message) => {
  const run = { envs: { luck: secondTimeLucky() }, reflection: {}, training: { optimizer: { lr: 1e-3 } }, ...changes };
  await expect(trainSmall(run)).rejects.toThrow(message);
});

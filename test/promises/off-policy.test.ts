/** Tokens of older weights: how old they may become, what the trainer says of them, and what is replayed. */
import { describe, expect, test } from "vitest";
import type { EnvFactory } from "../../src/envs/text-env.ts";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { RunFile } from "../../src/run/define-run.ts";
import { inFolder, trainLake } from "../runs/lake-run.ts";
import { trainSmall } from "../runs/small-run.ts";
import { lakeFile } from "./lake-file.ts";

test("staleness is bounded in an asynchronous run, and the trainer's log-probs match the sampler's just where they are fresh", async () => {
  const { metrics, trajectories } = await trainSmall(
    lakeFile({
      rollout: { maxInFlight: 64 },
      algorithm: { type: "decoupled-ppo" },
      loop: { type: "async", steps: 5, maxStaleness: 2 },
    }),
  );
  const ages = trajectories.flatMap(({ step, turns }) =>
    turns.flatMap(({ versions, samplerLogprobs, policyLogprobs }) =>
      versions.map((version, i) => ({
        age: step - 1 - version,
        gap: Math.abs(policyLogprobs![i]! - samplerLogprobs[i]!),
      })),
    ),
  );
  // Three steps' worth of groups starts under the first weights, and the last of them is trained on when two steps are done.
  expect(new Set(ages.map(({ age }) => age))).toEqual(new Set([0, 1, 2]));
  expect(Math.max(...metrics.map((each) => each["train/staleness_max"]!))).toBe(2);
  expect(metrics[0]!["train/sampler_gap_max"]).toBeLessThan(1e-4);
  const stale = ages.filter(({ age }) => age === 2).map(({ gap }) => gap);
  expect(stale.reduce((sum, gap) => sum + gap, 0) / stale.length).toBeGreaterThan(0.01);
});

/** The rewards of the two samples of a group, and whether its state is one of its own. Prompts are of these kinds in turn. */
const kinds = [
  { rewards: [3, 3], isRare: false },
  { rewards: [0, 0], isRare: true },
  { rewards: [1, 3], isRare: true },
  { rewards: [0, 0], isRare: false },
] as const;

function kindsInTurn(): EnvFactory {
  const numMade = new Map<string, number>();
  return {
    words: { words: ["go", "left", "right"], endWords: [] },
    makePrompt: (seed) => ({ id: `p${seed}`, domain: "kinds", seed, messages: [], truth: null, extra: {} }),
    makeEnv: ({ id }) => {
      const made = numMade.get(id) ?? 0;
      numMade.set(id, made + 1);
      const { rewards, isRare } = kinds[[...numMade.keys()].indexOf(id) % kinds.length]!;
      const stateKey = isRare ? id : "common";
      return {
        start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "go" }], stateKey } }),
        step: () => ({ kind: "terminated", reward: rewards[made % 2]!, metrics: {} }),
      };
    },
  };
}

describe("what is replayed follows the priorities of the run file, one or several at once", () => {
  const train = async (replay: NonNullable<RunFile["replay"]>) => {
    const { metrics } = await trainSmall(
      lakeFile({
        envs: { kinds: { type: "custom", ...kindsInTurn() } },
        rollout: { groupsPerStep: 4, groupSize: 2, contextLength: 16, maxInFlight: 1 },
        replay: { ratio: 0.5, maxAge: 4, maxReuse: 100, ...replay },
        loop: { type: "sync", steps: 4 },
      }),
    );
    expect(metrics[0]!["replay/share"]).toBe(0);
    return metrics.slice(1);
  };
  /** The mean reward of what was replayed in a step. */
  const rewardOf = (step: Metrics) => {
    const share = step["replay/share"]!;
    return (step["score/reward"]! - step["reward/mean"]! * (1 - share)) / share;
  };

  test("by reward, with importance weights against what is drawn too often", async () => {
    const [second, ...later] = await train({ priority: { recency: 0, reward: 4 }, beta: [1, 1] });
    for (const step of later) expect(rewardOf(step)).toBeGreaterThanOrEqual(2);
    // Four draws from the first two of three kinds: a group that is drawn more often weighs less each time.
    expect(second!["replay/share"]).toBeCloseTo(2 / 6, 6);
    expect(rewardOf(second!)).toBeCloseTo(2.5, 5);
    expect(second!["replay/weight"]).toBeLessThan(4 / 2);
  });

  test("by advantage", async () => {
    for (const step of await train({ priority: { recency: 0, advantage: 8 } }))
      expect(rewardOf(step)).toBeCloseTo(2, 5);
  });

  test("by rarity and reward together, where neither alone finds the one kind that has both", async () => {
    for (const step of await train({ priority: { recency: 0, rarity: 40, reward: 4 } })) {
      expect(rewardOf(step)).toBeCloseTo(2, 5);
    }
  });

  test("by recency", async () => {
    const ageOf = (step: Metrics) => step["replay/age"]!;
    expect((await train({ priority: { recency: 8 }, halfLife: 1 })).map(ageOf)).toEqual([1, 1, 1]);
    expect(Math.max(...(await train({ priority: "uniform", alpha: 0 })).map(ageOf))).toBeGreaterThan(1);
  });
});

test("replay counts the critic's TD errors, and is a pool that forgets the oldest", async () => {
  await inFolder(async (root) => {
    const { train, state } = await trainLake(root, {
      algorithm: { type: "ppo" },
      replay: { ratio: 0.5, maxAge: 4, maxReuse: 100, capacity: 24, eviction: "age", priority: "td-error" },
      loop: { type: "sync", steps: 3 },
      checkpoint: { every: 3 },
    });
    expect([...train.values()].map((metrics) => metrics["replay/trajectories"])).toEqual([16, 24, 24]);
    const { entries } = state(3).replay as unknown as {
      readonly entries: readonly { readonly version: number; readonly signals: Readonly<Record<string, number>> }[];
    };
    // Four groups of the last step, and of the step before as many as there is room for.
    expect(entries.map(({ version }) => version).toSorted()).toEqual([1, 1, 2, 2, 2, 2]);
    // 1 is what a group has that no critic has seen.
    const errors = entries.map(({ signals }) => signals["td-error"]!);
    expect(new Set(errors).size).toBe(6);
    expect(errors.every((error) => error > 0 && error !== 1)).toBe(true);
  });
});

/** ReMax: one greedy trajectory beside each group, whose reward is the baseline and which is never trained on. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AgentCall } from "../../src/rollout/agent-call.ts";
import type { TrajectoryRecord } from "../../src/tracking/trajectory-record.ts";
import { inFolder, type LakeChanges, trainLake } from "./lake-run.ts";
import { type SmallRun, trainSmall } from "./small-run.ts";
import { wordGame, wordRollout } from "./word-game.ts";

/** Checks that each group has one greedy trajectory, and that the others are compared with it. */
function expectBaselines({ trajectories, metrics }: Pick<SmallRun, "trajectories" | "metrics">): void {
  const baselines = new Map<string, TrajectoryRecord>();
  for (const record of trajectories.filter(({ fate }) => fate === "baseline")) {
    expect(baselines.has(record.groupId)).toBe(false);
    baselines.set(record.groupId, record);
  }
  for (const record of trajectories.filter(isTrained)) {
    const baseline = baselines.get(record.groupId);
    expect(baseline!.turns.flatMap(({ samplerLogprobs }) => samplerLogprobs).every((value) => value === 0)).toBe(true);
    expect(baseline!.advantage).toBeUndefined();
    expect(record.advantage).toBeCloseTo(record.reward.total - baseline!.reward.total, 4);
  }
  for (const step of metrics.filter((values) => "rollout/groups" in values))
    expect(step["rollout/greedy_trajectories"]).toBe(step["rollout/groups"]);
}

const isTrained = ({ fate }: TrajectoryRecord) => fate === "delivered";

test("a sample is worth what it earned beyond the greedy trajectory of its prompt, in groups of one too", async () => {
  const run = await trainSmall({
    envs: { game: wordGame },
    rollout: { ...wordRollout, groupsPerStep: 8, groupSize: 1, filter: { dropEqualRewards: true } },
    algorithm: { type: "remax" },
    training: { optimizer: { lr: 1e-2 } },
    loop: { type: "sync", steps: 2 },
  });
  expectBaselines(run);
  expect(run.trajectories.filter(isTrained)).toHaveLength(16);
  // What earned just what greedy earned teaches nothing and was sampled again.
  expect(run.metrics.every((step) => step["experience/rows"] === 8)).toBe(true);
  expect(run.trajectories.filter(isTrained).every(({ advantage }) => advantage !== 0)).toBe(true);
});

test("penalties and the clip hold for the greedy trajectory as for the samples that are compared with it", async () => {
  const cutGame = {
    ...wordGame,
    words: { words: ["yes", "no", "so", "?"], endWords: ["?"] },
    makeEnv: () => ({
      start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "so ?" }] } }),
      step: ({ text }: { readonly text: string }) => ({
        ...{ kind: text.endsWith("?") ? "terminated" : "truncated", reward: text.length, metrics: {} },
        observation: { messages: [] },
      }),
    }),
  };
  const { trajectories } = await trainSmall({
    envs: { game: cutGame },
    rollout: { ...wordRollout, groupsPerStep: 8, sampling: { maxTokens: 3 } },
    algorithm: {
      ...{ type: "remax", truncatedPenalty: 2, rewardClip: 4 },
      overlong: { maxTokens: 3, bufferTokens: 3, penalty: 3 },
    },
    training: { optimizer: { lr: 1e-2 } },
    loop: { type: "sync", steps: 1 },
  });
  const worth = ({ reward, turns, end }: TrajectoryRecord): number => {
    const numTokens = turns.reduce((sum, { samplerLogprobs }) => sum + samplerLogprobs.length, 0);
    return Math.min(Math.max(reward.total - numTokens - (end.kind === "truncated" ? 2 : 0), -4), 4);
  };
  const greedy = new Map(trajectories.filter(({ fate }) => fate === "baseline").map((one) => [one.groupId, one]));
  const pairs = trajectories.filter(isTrained).map((sample) => ({ sample, baseline: greedy.get(sample.groupId)! }));
  // All greedy trajectories are alike, and what penalties and clip take from them is not what they take from every sample.
  expect(worth(pairs[0]!.baseline)).toBeLessThan(pairs[0]!.baseline.reward.total);
  expect(new Set(trajectories.map(({ end }) => end.kind))).toEqual(new Set(["completed", "truncated"]));
  for (const { sample, baseline } of pairs) expect(sample.advantage).toBeCloseTo(worth(sample) - worth(baseline), 4);
});

test("an agent plays its greedy trajectory at temperature 0, whatever it asks for", async () => {
  const agent = async (_: unknown, { baseURL }: AgentCall): Promise<number> => {
    const response = await fetch(`${baseURL}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "run", temperature: 1, messages: [{ role: "user", content: "so ?" }] }),
    });
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    return choices[0]!.message.content.length;
  };
  const run = await trainSmall({
    envs: { game: wordGame },
    agent,
    rollout: wordRollout,
    algorithm: { type: "remax" },
    validation: { prompts: 1, temperature: 0.5 },
    training: { optimizer: { lr: 1e-2 } },
    loop: { type: "sync", steps: 1 },
  });
  // Those of the validation have no advantage.
  const ofTraining = run.trajectories.filter(({ advantage, fate }) => advantage !== undefined || fate === "baseline");
  expectBaselines({ ...run, trajectories: ofTraining, metrics: [] });
  expect(ofTraining.filter(isTrained)).toHaveLength(8);
});

const remax = { algorithm: { type: "remax" }, checkpoint: { every: 1, keep: 9 } } as const satisfies LakeChanges;

test.each([
  {
    name: "held trajectories, extra samples and groups",
    changes: {
      rollout: { partial: true, extraGroups: 4, extraSamples: 2, maxInFlight: 12 },
      loop: { type: "sync", steps: 3, maxStaleness: 2 },
    },
  },
  { name: "an asynchronous loop", changes: { loop: { type: "async", steps: 3 }, rollout: { extraSamples: 1 } } },
] satisfies readonly { name: string; changes: LakeChanges }[])("every group has its baseline in $name", ({ changes }) =>
  inFolder(async (root) => {
    const { train } = await trainLake(root, { ...remax, ...changes });
    expect([...train.values()].map((step) => step["rollout/greedy_trajectories"])).toEqual([4, 4, 4]);
    expect([...train.values()].map((step) => step["rollout/trajectories"])).toEqual([16, 16, 16]);
  }),
);

test("a run with replay goes on to the bit: replayed groups keep the baseline they were sampled with", () =>
  inFolder(async (root) => {
    const changes: LakeChanges = {
      ...remax,
      replay: { ratio: 0.5, maxAge: 4, priority: "uniform" },
      loop: { type: "sync", steps: 3 },
    };
    const run = await trainLake(root, changes);
    const last = run.weights(3);
    rmSync(join(run.folder, "checkpoints/step-000003"), { recursive: true });
    const resumed = await trainLake(root, changes, run.folder);
    expect(resumed.train.get(3)!["replay/share"]).toBeGreaterThan(0);
    expect(resumed.weights(3)).toBe(last);
  }));

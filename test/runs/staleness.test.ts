/** Staleness is counted in training steps, and what is measured and saved belongs to the weights that it is called by. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inFolder, trainLake } from "./lake-run.ts";

const decoupled = { type: "decoupled-ppo" } as const;

test("between two publications tokens grow older with every training step", async () => {
  await inFolder(async (root) => {
    const { train, versions } = await trainLake(root, {
      algorithm: decoupled,
      loop: { type: "async", steps: 6, syncInterval: 3, maxStaleness: 2 },
    });
    const ages = [...train.values()].map((metrics) => [
      metrics["train/staleness"],
      metrics["train/staleness_max"],
      metrics["rollout/staleness"],
    ]);
    // Steps 1 to 3 train on tokens of version 0, steps 4 to 6 on those of version 3.
    expect(ages).toEqual([0, 1, 2, 0, 1, 2].map((age) => [age, age, age]));
    expect(new Set(versions(6))).toEqual(new Set([3]));
  });
});

test("validation, patience and the best checkpoint wait for weights that were published", async () => {
  await inFolder(async (root) => {
    const run = await trainLake(root, {
      algorithm: decoupled,
      training: { optimizer: { lr: 1e-9 } },
      loop: { type: "async", steps: 40, syncInterval: 3, maxStaleness: 2 },
      // Weights that hardly change, so that no validation is better than the first.
      validation: { every: 2, prompts: 8, patience: 2 },
      checkpoint: { every: 5, keep: 20 },
    });
    // Due after steps 2 and 4, published after 3 and 6.
    expect([...run.validation.keys()]).toEqual([0, 3, 6]);
    expect([...run.train.keys()].at(-1)).toBe(6);
    expect(run.state(6)).toMatchObject({ step: 6, version: 6, best: { step: 0 }, validatedStep: 6 });
    // Steps that are no publication have their checkpoints all the same.
    expect(run.state(5)).toMatchObject({ step: 5, version: 3 });
  });
});

test("a run that is resumed between two publications samples with the weights it was saved with, under their own number", async () => {
  await inFolder(async (root) => {
    const changes = {
      algorithm: decoupled,
      loop: { type: "async", steps: 6, syncInterval: 4, maxStaleness: 3 },
      checkpoint: { every: 3, keep: 20 },
    } as const;
    const { folder, versions } = await trainLake(root, changes);
    expect(new Set(versions(4))).toEqual(new Set([0]));
    rmSync(join(folder, "checkpoints/step-000006"), { recursive: true });
    const resumed = await trainLake(root, changes, folder);
    expect(new Set(resumed.versions(4))).toEqual(new Set([3]));
    expect(resumed.train.get(4)).toMatchObject({ "train/staleness": 0 });
    expect(resumed.train.get(4)!["train/sampler_gap"]).toBeLessThan(1e-4);
    expect(existsSync(join(folder, "checkpoints/step-000006"))).toBe(true);
  });
});

test("held trajectories are continued as long as their oldest token may be trained on, and no longer", async () => {
  await inFolder(async (root) => {
    const { train } = await trainLake(root, {
      envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 12, answerTags: null } },
      rollout: { partial: true, extraGroups: 12, maxInFlight: 16, contextLength: 160 },
      loop: { type: "sync", steps: 6, maxStaleness: 1 },
    });
    const oldest = [...train.values()].map((metrics) => metrics["train/staleness_max"]!);
    expect(Math.max(...oldest)).toBe(1);
  });
});

test("nothing is replayed that is older than replay.maxAge, whatever its priority", async () => {
  await inFolder(async (root) => {
    const { train, state } = await trainLake(root, {
      algorithm: { type: "grpo", correction: { importance: { level: "token", threshold: 2 } } },
      replay: {
        ...{ ratio: 0.5, maxAge: 2, maxReuse: 100, halfLife: 100, eviction: "age" },
        priority: { recency: 0, reward: 0.5, rarity: 1 },
      },
      loop: { type: "sync", steps: 6 },
      checkpoint: { every: 6 },
    });
    const oldest = [...train.values()].map((metrics) => metrics["train/staleness_max"]);
    expect(oldest.slice(0, 2)).toEqual([0, 1]);
    expect(Math.max(...oldest.map(Number))).toBe(2);
    const { entries } = state(6).replay as unknown as { readonly entries: readonly { readonly version: number }[] };
    // Those that were too old for step 6 are gone.
    expect(Math.min(...entries.map(({ version }) => version))).toBe(3);
  });
});

test("a run is told when rollout runs ahead as far as it may, and what the limit is", async () => {
  await inFolder(async (root) => {
    // Rollouts of a turn or two are far quicker than twelve epochs, so tokens are as old as they may be from the third step on.
    const { warnings } = await trainLake(root, {
      algorithm: { ...decoupled, numEpochs: 12 },
      envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 1, answerTags: null } },
      loop: { type: "async", steps: 8, maxStaleness: 2 },
    });
    expect(warnings.find(({ code }) => code === "staleness")?.text).toMatch(
      /^Tokens are [\d.]+ training steps old on average, and 2 is the limit: .* Lower loop\.maxStaleness/,
    );
  });
});

test("a run is told when most of its replies are cut off, and by which limit", async () => {
  await inFolder(async (root) => {
    const { warnings } = await trainLake(root, {
      rollout: { sampling: { maxTokens: 1 } },
      loop: { type: "sync", steps: 3 },
    });
    expect(warnings.find(({ code }) => code === "reply-length")?.text).toMatch(
      /^\d+ % of replies are cut off before they end: rollout\.sampling\.maxTokens is 1\. Raise it/,
    );
  });
});

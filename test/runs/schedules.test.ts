/** Schedules of learning rates end when the run does, however many updates its steps make. */
import { expect, test } from "vitest";
import { inFolder, trainLake } from "./lake-run.ts";

const corrected = { type: "grpo", correction: { importance: { level: "token", threshold: 2 } } } as const;

test("with replay the rate reaches its end with the last step, and the plan counts what is replayed", async () => {
  await inFolder(async (root) => {
    const steps = 5;
    const { plan, train } = await trainLake(root, {
      algorithm: corrected,
      training: { optimizer: { lr: 1e-3 }, schedule: { type: "linear" }, minibatch: 4 },
      replay: { ratio: 0.5 },
      loop: { type: "sync", steps },
    });
    expect(plan.slice(0, 2)).toEqual([
      "4 prompts x 4 samples = 16 trajectories and up to 16 replayed per step; minibatch 4 -> up to 8 updates per rollout step",
      "5 steps = up to 40 updates, learning rate 0.001 with linear decay",
    ]);
    // The first step has nothing to replay yet.
    expect(train.get(1)).toMatchObject({ "train/updates": 4, "replay/share": 0 });
    expect(train.get(3)!["train/updates"]).toBeGreaterThan(4);
    for (const [step, metrics] of train) {
      // That of the last update of the step, which begins when all others of the step are done.
      const done = step - 1 / metrics["train/updates"]!;
      expect(metrics["train/lr"]).toBeCloseTo(1e-3 * (1 - done / steps), 10);
    }
  });
});

test("with replay a warm-up in rollout steps takes as many of them", async () => {
  await inFolder(async (root) => {
    const { plan, train } = await trainLake(root, {
      algorithm: corrected,
      training: { optimizer: { lr: 1e-3 }, schedule: { warmup: 2, unit: "rollout-steps" }, minibatch: 4 },
      replay: { ratio: 0.5 },
      loop: { type: "sync", steps: 3 },
    });
    expect(plan[1]).toBe("2 warm-up rollout steps = up to 16 updates");
    // Four updates in the first step, where eight were planned: the last begins at 6 of 16.
    expect(train.get(1)!["train/lr"]).toBeCloseTo((1e-3 * 7) / 16, 10);
    expect(train.get(2)!["train/lr"]).toBeGreaterThan(0.9e-3);
    expect(train.get(3)!["train/lr"]).toBe(1e-3);
  });
});

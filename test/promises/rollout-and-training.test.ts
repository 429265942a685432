/** A frozen policy, a batch that never changes, one anchor for all epochs, and the arithmetic of batches and schedules. */
import { describe, expect, test } from "vitest";
import { buildEnv } from "../../src/envs/catalog.ts";
import type { EnvFactory } from "../../src/envs/text-env.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { type SmallRun, trainSmall } from "../runs/small-run.ts";
import { lakeFile } from "./lake-file.ts";

/** FrozenLake that keeps what it was told and paid, turn by turn, by prompt. */
function witnessedLake(): { readonly env: EnvFactory; readonly heard: Map<string, string[]> } {
  const lake = buildEnv({ type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null });
  const heard = new Map<string, string[]>();
  const makeEnv: EnvFactory["makeEnv"] = async (prompt, seed) => {
    const inner = await lake.makeEnv(prompt, seed);
    const told: string[] = [];
    return {
      start: (signal) => inner.start(signal),
      step: async (reply, signal) => {
        const step = await inner.step(reply, signal);
        told.push(`${reply.text} ${step.reward}`);
        if (step.kind !== "continues") heard.set(prompt.id, [...(heard.get(prompt.id) ?? []), told.join(", ")]);
        return step;
      },
    };
  };
  return { env: { ...lake, makeEnv }, heard };
}

describe("four updates per step on each rollout", () => {
  const { env, heard } = witnessedLake();
  let run: SmallRun;

  test("the policy is frozen during a rollout, and the batch never changes", async () => {
    run = await trainSmall(
      lakeFile({
        envs: { lake: { type: "custom", ...env } },
        algorithm: { type: "grpo", numEpochs: 2 },
        training: { optimizer: { lr: 1e-3 }, minibatch: 8 },
        loop: { type: "sync", steps: 3 },
      }),
    );
    expect(run.metrics.map((metrics) => metrics["train/updates"])).toEqual([4, 4, 4]);
    for (const { step, turns } of run.trajectories) {
      // Every token is of the weights that the step before has left, all of its updates and no other.
      for (const { versions } of turns) expect(new Set(versions)).toEqual(new Set([step - 1]));
    }
    // Recorded after training: what was said and paid is what the environments heard and paid before.
    const recorded = new Map<string, string[]>();
    for (const { prompt, turns } of run.trajectories) {
      const told = turns.map(({ replyText, reward }) => `${replyText} ${reward}`).join(", ");
      recorded.set(prompt.id, [...(recorded.get(prompt.id) ?? []), told]);
    }
    expect(sorted(recorded)).toEqual(sorted(heard));
  });

  test("log-probs are recorded when tokens are drawn, and the trainer's anchor is one for all epochs", () => {
    for (const { turns } of run.trajectories) {
      for (const { samplerLogprobs, policyLogprobs } of turns) {
        for (const [i, sampled] of samplerLogprobs.entries()) expect(policyLogprobs![i]).toBeCloseTo(sampled, 3);
      }
    }
    for (const metrics of run.metrics) {
      expect(metrics["train/sampler_gap_max"]).toBeLessThan(1e-4);
      // An anchor that followed the policy would be equal to it in every update.
      expect(Math.abs(metrics["policy/anchor_kl"]!)).toBeGreaterThan(1e-4);
    }
  });
});

function sorted(byPrompt: ReadonlyMap<string, readonly string[]>): object {
  return Object.fromEntries([...byPrompt].map(([id, told]) => [id, told.toSorted()]));
}

describe("batch arithmetic", () => {
  const schedule = { warmup: 2, unit: "rollout-steps" } as const;
  const file = lakeFile({
    rollout: { groupsPerStep: 8, groupSize: 4 },
    training: { optimizer: { lr: 1e-3 }, schedule, minibatch: 2 },
    loop: { type: "sync", steps: 3 },
  });
  let run: SmallRun;

  test("512 prompts x 16 samples make 8192 rows and 16 updates, and the plan says so", async () => {
    const sets = ["rollout.groupsPerStep=512", "rollout.groupSize=16", "training.minibatch=512"];
    const { plan } = await prepareRun(file, sets, {});
    expect(plan.lines.slice(0, 3)).toEqual([
      "512 prompts x 16 samples = 8192 trajectories per step; minibatch 512 -> 16 updates per rollout step",
      "2 warm-up rollout steps = 32 updates",
      "3 steps = 48 updates, learning rate 0.001 constant",
    ]);
  });

  test("and the run does what its plan says: 8 x 4 make 32 rows and 16 updates", async () => {
    run = await trainSmall(file);
    expect(run.plan[0]).toBe(
      "8 prompts x 4 samples = 32 trajectories per step; minibatch 2 -> 16 updates per rollout step",
    );
    for (const metrics of run.metrics) {
      expect(metrics).toMatchObject({ "rollout/trajectories": 32, "experience/rows": 32, "train/updates": 16 });
    }
  });

  test("a warm-up counted in rollout steps takes as many of them", () => {
    // The rate of the last of 16 updates, which is the 16th, 32nd and 48th.
    expect(run.metrics.map((metrics) => metrics["train/lr"])).toEqual([0.5e-3, 1e-3, 1e-3]);
  });
});

/** PPO with actor, critic, reference and reward model from one run file. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { buildEnv } from "../../src/envs/catalog.ts";
import { prepareModel } from "../../src/run/prepare-model.ts";
import { writeRewardModel } from "../rewards/write-reward-model.ts";
import { inFolder, type LakeChanges, type LakeRun, trainLake } from "./lake-run.ts";

const envs = { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null } } as const;

interface Models {
  readonly policy: string;
  /** A reward model with the policy's words. */
  readonly sameWords: string;
  /** One that reads bytes, written as ChatML. */
  readonly otherWords: string;
}

async function writeModels(root: string): Promise<Models> {
  const policy = await prepareModel(
    { model: { preset: "nano", path: null } as never, seed: 1 },
    [buildEnv(envs.lake)],
    root,
  );
  const { files, vocabularySize } = await loadTokenizer(policy);
  const padded = 16 * Math.ceil(vocabularySize / 16);
  return {
    policy,
    sameWords: writeRewardModel(join(root, "same-words"), padded, files),
    otherWords: writeRewardModel(join(root, "other-words"), 272, byteTokenizerFiles()),
  };
}

const klReward = { coefficient: 0.1, adaptive: { targetKl: 0.002, horizon: 64 } } as const;

function wholePpo({ policy, sameWords, otherWords }: Models): LakeChanges {
  return {
    model: { path: policy },
    rewards: { lake: { type: "reward-model", path: otherWords } },
    critic: { path: sameWords, warmupUpdates: 1, optimizer: { lr: 1e-3 } },
    algorithm: { type: "ppo", klReward, rewardNormalization: {}, truncatedPenalty: 0.5, rewardClip: 5 },
    training: { optimizer: { lr: 2e-3 } },
    loop: { type: "sync", steps: 4 },
    checkpoint: { every: 1, keep: 9 },
  };
}

const checkpointFile = ({ folder }: LakeRun, step: number, path: string) =>
  readFileSync(join(folder, `checkpoints/step-00000${step}/state`, path)).toString("hex");

test("the critic starts as the reward model and learns first; the KL coefficient and the scale of rewards follow what is measured", () =>
  inFolder(async (root) => {
    const models = await writeModels(root);
    const changes = wholePpo(models);
    const run = await trainLake(root, changes);
    const owners = run.plan.filter((line) => line.startsWith("  ")).map((line) => line.trim().split(":")[0]);
    expect(owners).toEqual(["trainer", "critic", "reference", "reward model", "engine"]);

    const head = readFileSync(join(models.sameWords, "value_head.safetensors")).toString("hex");
    expect(checkpointFile(run, 0, "critic/value_head.safetensors")).toBe(head);
    expect(checkpointFile(run, 1, "critic/value_head.safetensors")).not.toBe(head);
    expect(run.weights(1)).toBe(run.weights(0));
    expect(run.weights(2)).not.toBe(run.weights(1));

    const metric = (step: number, name: string) => run.train.get(step)![name]!;
    // While only the critic learns, nothing is steered: the policy is the reference.
    expect([1, 2].map((step) => metric(step, "score/kl_coefficient"))).toEqual([0.1, 0.1]);
    expect(metric(3, "score/reference_kl")).toBeGreaterThan(0);
    for (const step of [2, 3]) {
      const error = Math.min(Math.max(metric(step, "score/reference_kl") / 0.002 - 1, -0.2), 0.2);
      const expected = metric(step, "score/kl_coefficient") * (1 + (error * 16) / 64);
      expect(metric(step + 1, "score/kl_coefficient")).toBeCloseTo(expected, 12);
    }
    const means = [1, 2, 3].map((step) => metric(step, "score/reward"));
    expect(metric(3, "score/reward_mean_lake")).toBeCloseTo((means[0]! + means[1]! + means[2]!) / 3, 5);
    expect(metric(3, "score/reward_std_lake")).toBeGreaterThan(0);
  }));

test("a critic with other words than the policy's is refused before anything starts, and so is such a reference", () =>
  inFolder(async (root) => {
    const models = await writeModels(root);
    const changes = wholePpo(models);
    const critic = trainLake(root, { ...changes, critic: { path: models.otherWords } });
    await expect(critic).rejects.toThrow(/^critic\.path has another vocabulary than the model/);
    const reference = trainLake(root, { ...changes, reference: models.otherWords });
    await expect(reference).rejects.toThrow(/^reference has another vocabulary than the model/);
  }));

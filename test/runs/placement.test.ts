/** Where the roles of a run are changes none of its numbers: the same run file with every role in its own place, to the bit. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { writeRewardModel } from "../rewards/write-reward-model.ts";
import { digestOf, type SmallRun, trainSmall } from "./small-run.ts";

let folder: string;
let run: Record<string, unknown>;
let together: SmallRun;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "reroll-placement-"));
  const path = writeRewardModel(join(folder, "reward-model"), 272, byteTokenizerFiles());
  run = {
    envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null } },
    rewards: { lake: { type: "reward-model", path } },
    rollout: { groupsPerStep: 4, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    algorithm: { type: "ppo", klReward: { coefficient: 0.1 }, klLoss: { coefficient: 0.05 }, numEpochs: 2 },
    critic: { warmupUpdates: 1, optimizer: { lr: 1e-3 } },
    training: { optimizer: { lr: 2e-3 }, minibatch: 4, maxTokensPerMicrobatch: 256, threads: 1 },
    engine: { threads: 1 },
    loop: { type: "sync", steps: 2 },
    checkpoint: { every: 1 },
  };
  together = await trainSmall(run);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Sums of losses are added up in another order where a part of the loss is computed elsewhere. */
function expectSameRun({ weights, metrics, trajectories }: SmallRun): void {
  expect(digestOf(weights)).toBe(digestOf(together.weights));
  expect(trajectories.map(({ reward }) => reward)).toEqual(together.trajectories.map(({ reward }) => reward));
  for (const [i, values] of together.metrics.entries()) {
    expect(Object.keys(metrics[i]!).toSorted()).toEqual(Object.keys(values).toSorted());
    for (const [name, value] of Object.entries(values))
      if (name !== "sync/bytes") expect(metrics[i]![name], name).toBeCloseTo(value, 6);
  }
}

const apart = { workers: "processes" };

test("policy, critic, reference, reward model and engine in a worker each end with the weights of a run that has them together", async () => {
  const placement = { engine: apart, reference: apart, critic: { workers: "threads" }, reward: apart };
  expectSameRun(await trainSmall({ ...run, placement }));
});

test("critic and reference on the same device share a process, and are resumed with the run; what sleeps while others work changes no number", async () => {
  let processes: readonly string[] = [];
  const seen = () => (processes = roleProcesses());
  const sleeps = { sleep: true };
  const shared = { ...apart, ...sleeps };
  const placement = { trainer: sleeps, reference: shared, critic: shared, reward: sleeps };
  expectSameRun(await trainSmall({ ...run, placement }, 1, seen));
  expect(processes).toHaveLength(1);
  expect(roleProcesses()).toEqual([]);
});

test("two ranks that train, two that measure and two that learn values end with the weights of one of each", async () => {
  // Without it AdamW divides by the size of gradients that are rounding alone.
  const optimizer = { lr: 2e-3, eps: 1e-3 };
  const training = { ...(run.training as object), optimizer };
  const critic = { warmupUpdates: 1, optimizer };
  const placement = { reference: { count: 2, workers: "threads" }, critic: { count: 2, workers: "threads" } };
  const one = await trainSmall({ ...run, training, critic });
  const two = await trainSmall({ ...run, training: { ...training, ranks: 2 }, critic, placement });
  const most = two.weights.reduce((most, value, i) => Math.max(most, Math.abs(value - one.weights[i]!)), 0);
  expect(most).toBeLessThan(1e-6);
});

test("a LoRA run has its reference apart with the numbers of its own base", async () => {
  const lora = {
    ...run,
    ...{ model: { preset: "nano", lora: { rank: 2, alpha: 4 } }, loop: { type: "sync", steps: 2 } },
    ...{ algorithm: { type: "grpo", klLoss: { coefficient: 0.1 } }, rewards: {}, checkpoint: { every: 0 } },
  };
  const [here, there] = [await trainSmall(lora), await trainSmall({ ...lora, placement: { reference: apart } })];
  expect(digestOf(there.weights)).toBe(digestOf(here.weights));
});

test.each<[string, Record<string, unknown>, RegExp]>([
  [
    "a critic for a recipe without one",
    { algorithm: { type: "grpo" }, placement: { critic: apart } },
    /^placement\.critic is set, and grpo has no critic/,
  ],
  [
    "a reference where no KL is measured",
    { algorithm: { type: "grpo" }, placement: { reference: apart } },
    /^placement\.reference is set, and grpo/,
  ],
  [
    "a device that is not here",
    { placement: { reference: { devices: "9" } } },
    /^placement\.reference\.devices is "9", and this machine has \d+ CUDA devices/,
  ],
  [
    "a trainer that sleeps while it samples",
    { loop: { type: "async", steps: 1 }, placement: { trainer: { sleep: true } } },
    /^placement\.trainer\.sleep is true, and loop\.type is "async"/,
  ],
  [
    "a critic apart in bypass mode",
    { algorithm: { type: "ppo", bypass: {} }, placement: { critic: apart } },
    /^placement\.critic puts the critic apart from the trainer, and algorithm\.bypass/,
  ],
])("%s is refused before anything starts", async (_, changes, message) => {
  await expect(
    prepareRun({ device: "cpu", model: { preset: "nano" }, ...run, ...changes } as never, [], {}),
  ).rejects.toThrow(message);
});

function roleProcesses(): readonly string[] {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ");
  return children.filter((pid) => pid !== "" && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("role-worker"));
}

/** A warm start is a phase of its own: what comes after it starts from its weights, whoever asks for them. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { inFolder, type LakeChanges, trainLake } from "./lake-run.ts";

/** Far enough to be seen: a reference from before it would be more than a nat away from the policy. */
const warmStart: LakeChanges["warmStart"] = { type: "play", steps: 8, turnsPerStep: 32, optimizer: { lr: 3e-3 } };
const bytes = (...path: string[]) => readFileSync(join(...path, "model.safetensors")).toString("hex");

/** Metrics of the supervised steps that a run has recorded. */
function supervised(folder: string): readonly unknown[] {
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
  const records = lines.map((line) => JSON.parse(line)).filter(({ kind }) => kind === "supervised");
  return records.map(({ step, metrics }) => [step, metrics["supervised/loss"], metrics["supervised/lr"]]);
}

function weights(folder: string, name: string): string {
  const file = ["model.safetensors", "adapter_model.safetensors"].find((one) => existsSync(join(folder, name, one)));
  return readFileSync(join(folder, name, file!)).toString("hex");
}

test.each([
  { name: "all weights", model: { preset: "nano" }, whole: "warm-start/model" },
  { name: "adapters", model: { preset: "nano", lora: { rank: 4, alpha: 8 } }, whole: "warm-start/merged" },
] satisfies readonly (LakeChanges & { name: string; whole: string })[])(
  "reference and critic of a run that trains $name start from the weights after the warm start, and do so when it is resumed",
  ({ model, whole }) =>
    inFolder(async (root) => {
      const algorithm = { type: "ppo", klReward: { coefficient: 0.01 } } as const;
      const changes = { model, warmStart, algorithm, checkpoint: { every: 1 } } as const;
      const { folder, train } = await trainLake(root, { ...changes, loop: { type: "sync", steps: 1 } });
      expect(train.get(1)!["score/reference_kl"]).toBeCloseTo(0, 5);
      expect(bytes(folder, "checkpoints/step-000000/state/critic")).toBe(bytes(folder, whole));
      expect(bytes(folder, whole)).not.toBe(bytes(folder, "model"));
      expect(existsSync(join(folder, "checkpoints/step-000001/state/supervised"))).toBe(false);
      const resumed = await trainLake(root, { ...changes, loop: { type: "sync", steps: 2 } }, folder);
      expect(Math.abs(resumed.train.get(2)!["score/reference_kl"]!)).toBeLessThan(0.1);
    }),
);

test("a warm start alone ends with its weights saved, and a run without its warm start cannot be resumed", () =>
  inFolder(async (root) => {
    const { folder } = await trainLake(root, { warmStart, loop: { type: "sync", steps: 0 } });
    expect(bytes(folder, "checkpoints/step-000000/model")).toBe(bytes(folder, "warm-start/model"));
    loadCausalLm(join(folder, "warm-start/model")).dispose();
    rmSync(join(folder, "warm-start"), { recursive: true });
    const again = trainLake(root, { warmStart, loop: { type: "sync", steps: 1 } }, folder);
    await expect(again).rejects.toThrow(/warm-start is missing/);
  }));

test("a warm start that is stopped and resumed ends with the weights and the record of one that was not", () =>
  inFolder(async (root) => {
    const model = { preset: "nano", lora: { rank: 4, alpha: 8 } } as const;
    const changes = { model, warmStart: { ...warmStart, steps: 4 }, loop: { type: "sync", steps: 1 } } as const;
    const whole = await trainLake(root, changes);
    // Asked to stop before the first step, which is done all the same.
    const stopped = trainLake(root, { ...changes, name: "stopped" }, undefined, AbortSignal.abort());
    await expect(stopped).rejects.toThrow("The run was stopped before its first step. Its warm start can be resumed");
    const folder = join(root, "stopped");
    expect(supervised(folder)).toHaveLength(1);
    await trainLake(root, { ...changes, name: "stopped" }, folder);
    for (const file of ["warm-start/model", "checkpoints/step-000001/model"])
      expect(weights(folder, file)).toBe(weights(whole.folder, file));
    expect(supervised(folder)).toEqual(supervised(whole.folder));
    expect(existsSync(join(folder, "warm-start.partial"))).toBe(false);
  }));

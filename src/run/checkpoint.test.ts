import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { invariant } from "../errors/reroll-error.ts";
import type { Trainer } from "../training/trainer.ts";
import { Checkpoints, type LoopState } from "./checkpoint.ts";

let root: string;
let numSaved: number;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-checkpoint-"));
  numSaved = 0;
});
afterEach(() => rmSync(root, { recursive: true }));

function unused(): never {
  invariant(false, "checkpoints only save");
}

const trainer: Trainer = {
  step: unused,
  withWeights: unused,
  saveMerged: unused,
  saveModel: async (folder) => {
    mkdirSync(folder);
    writeFileSync(join(folder, "weights"), String(++numSaved));
  },
  saveState: async (folder) => {
    mkdirSync(folder);
  },
  loadState: unused,
  close: unused,
};

const stateAt = (step: number, best: LoopState["best"] = null): LoopState => ({
  ...{ step, version: step, rollout: null, replay: null, best, numWithoutBetter: 0, validatedStep: -1 },
});

test("the latest complete checkpoint is the one to go on from, and one that was being written is not", async () => {
  const checkpoints = new Checkpoints(root, 2);
  expect(await checkpoints.latest()).toBeNull();
  await checkpoints.save(trainer, stateAt(2));
  mkdirSync(join(root, "checkpoints", "step-000003.writing"));
  expect((await new Checkpoints(root, 2).latest())?.state).toEqual(stateAt(2));
});

test("saving a step again changes what is known of it, and leaves its weights in place", async () => {
  await new Checkpoints(root, 2).save(trainer, stateAt(2));
  const resumed = new Checkpoints(root, 2);
  await resumed.latest();
  const known = stateAt(2, { step: 2, value: 0.5 });
  await resumed.save(trainer, known);
  expect((await resumed.latest())?.state).toEqual(known);
  expect(numSaved).toBe(1);
});

test("the latest ones and the best are kept", async () => {
  const checkpoints = new Checkpoints(root, 2);
  for (let step = 1; step <= 5; step++) await checkpoints.save(trainer, stateAt(step, { step: 1, value: 1 }));
  expect(readdirSync(join(root, "checkpoints")).sort()).toEqual(["step-000001", "step-000004", "step-000005"]);
});

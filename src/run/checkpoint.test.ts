import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { invariant } from "../errors/reroll-error.ts";
import { freeHeld, HoldingSink, nothingHeld } from "../models/formats/file-sink.ts";
import { resolveCheckpoint } from "../models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../models/formats/tensor-files.ts";
import { tensor } from "../torch/create.ts";
import { memoryStats } from "../torch/memory.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { Trainer } from "../training/trainer.ts";
import { Checkpoints, type LoopState, type SavedTrainer } from "./checkpoint.ts";
import { damageOf, readChecked } from "./checkpoint-files.ts";

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
  eachWeights: unused,
  withParameters: unused,
  saveMerged: unused,
  saveModel: async (folder) => {
    mkdirSync(folder);
    writeFileSync(join(folder, "weights"), String(++numSaved));
    return nothingHeld;
  },
  saveState: async (folder) => {
    mkdirSync(folder);
    writeFileSync(join(folder, "moments"), "12345");
    return nothingHeld;
  },
  loadState: unused,
  memory: unused,
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

test("a run that goes back to a kept checkpoint finds what was its best, also after a later one was better", async () => {
  const checkpoints = new Checkpoints(root, 2);
  const early = { step: 1, value: 5 };
  for (const step of [1, 2, 3, 4]) await checkpoints.save(trainer, stateAt(step, early));
  await checkpoints.save(trainer, stateAt(5, { step: 5, value: 6 }));
  await checkpoints.settled();
  expect(readdirSync(join(root, "checkpoints")).sort()).toEqual(["step-000001", "step-000004", "step-000005"]);
  await checkpoints.save(trainer, stateAt(6, { step: 5, value: 6 }));
  await checkpoints.settled();
  expect(readdirSync(join(root, "checkpoints")).sort()).toEqual(["step-000005", "step-000006"]);
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

const damages: readonly (readonly [string, string, (folder: string) => void, string])[] = [
  ["a file that is gone", "state/moments", (path) => rmSync(path), "state/moments is missing"],
  ["a file that was cut off", "state/moments", (path) => writeFileSync(path, "123"), "state/moments has 3 bytes of 5"],
  ["a flipped bit", "state/moments", (path) => writeFileSync(path, "12344"), "state/moments is not what was written"],
  [
    "a state that is no JSON",
    "loop.json",
    (path) => writeFileSync(path, '{"step":2'),
    "loop.json is not what was written",
  ],
  [
    "a digit changed in the state",
    "loop.json",
    (path) => writeFileSync(path, readFileSync(path, "utf8").replace('"version":2', '"version":3')),
    "loop.json is not what was written",
  ],
  [
    "the state of another step",
    "loop.json",
    (path) => copyFileSync(path.replace("000002", "000001"), path),
    "loop.json and manifest.json were not written together",
  ],
  ["no state", "loop.json", (path) => rmSync(path), "loop.json is missing"],
  ["no manifest", "manifest.json", (path) => rmSync(path), "manifest.json is missing"],
];

test.each(damages)("with %s, a run goes on from the checkpoint before", async (_, file, damage, reason) => {
  const checkpoints = new Checkpoints(root, 3);
  for (const step of [1, 2]) await checkpoints.save(trainer, stateAt(step));
  damage(join(root, "checkpoints/step-000002", file));
  expect(await new Checkpoints(root, 3).settle()).toEqual({
    step: 1,
    statements: [`The checkpoint step-000002 is damaged (${reason}) and was set aside as step-000002.damaged.`],
  });
  expect((await new Checkpoints(root, 3).latest())?.state.step).toBe(1);
  expect(readdirSync(join(root, "checkpoints"))).toEqual(["step-000001", "step-000002.damaged"]);
});

test("a run with damaged checkpoints only is not resumed, and they stay where they are", async () => {
  await new Checkpoints(root, 3).save(trainer, stateAt(1));
  writeFileSync(join(root, "checkpoints/step-000001/model/weights"), "2");
  await expect(new Checkpoints(root, 3).settle()).rejects.toThrow(
    /is whole\. step-000001: model\/weights is not what was written\./,
  );
  expect(readdirSync(join(root, "checkpoints"))).toEqual(["step-000001"]);
});

test("going on from an earlier step sets the later ones aside, so that the next time finds this life and not the other", async () => {
  const checkpoints = new Checkpoints(root, 4);
  for (const step of [1, 2, 3]) await checkpoints.save(trainer, stateAt(step));
  const { step, statements } = await new Checkpoints(root, 4).settle(1);
  expect(step).toBe(1);
  expect(statements).toEqual(["Set aside what came after step-000001: step-000002.replaced, step-000003.replaced."]);
  expect((await new Checkpoints(root, 4).latest())?.state.step).toBe(1);
  await expect(new Checkpoints(root, 4).settle(3)).rejects.toThrow(/has no checkpoint of this step\. It has: 1\./);
});

test("a checkpoint of an earlier version, without hashes, is taken as it is", async () => {
  const folder = join(root, "checkpoints/step-000001");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "loop.json"), JSON.stringify(stateAt(1)));
  expect(await new Checkpoints(root, 2).settle()).toEqual({ step: 1, statements: [] });
});

/** A trainer whose one weight is what it was when it was saved, and is changed as soon as training may go on. */
function heldTrainer(weight: Tensor): SavedTrainer {
  return {
    saveModel: async (folder, maxHeldBytes = 0) => {
      mkdirSync(folder);
      const sink = new HoldingSink(maxHeldBytes);
      sink.tensors(join(folder, "w.safetensors"), [tensorSource("w", weight)]);
      return sink.release();
    },
    saveState: async () => nothingHeld,
  };
}

function weightOf(step: number): number[] {
  const path = join(root, `checkpoints/step-00000${step}/model/w.safetensors`);
  const mapped = new MappedCheckpoint(resolveCheckpoint(path));
  try {
    return tensorScope(() => mapped.read("w").toArray());
  } finally {
    mapped.dispose();
  }
}

test("training goes on while a checkpoint is written, which holds what was there when it was saved", async () => {
  const bytesBefore = memoryStats().liveBytes;
  const weight = tensor([1, 2, 3]);
  const checkpoints = new Checkpoints(root, 3);
  await checkpoints.save(heldTrainer(weight), stateAt(1));
  expect(readdirSync(join(root, "checkpoints"))).toEqual(["step-000001.writing"]);
  weight.mul_(10);
  // What is learned of the step before its checkpoint is complete belongs to it.
  await checkpoints.save(heldTrainer(weight), stateAt(1, { step: 1, value: 5 }));
  // The next one waits for it.
  await checkpoints.save(heldTrainer(weight), stateAt(2));
  expect(weightOf(1)).toEqual([1, 2, 3]);
  await checkpoints.settled();
  expect(weightOf(2)).toEqual([10, 20, 30]);
  await checkpoints.close();
  expect(await new Checkpoints(root, 3).settle()).toEqual({ step: 2, statements: [] });
  expect(await damageOf(join(root, "checkpoints/step-000001"), "loop.json")).toBeNull();
  expect((await readChecked(join(root, "checkpoints/step-000001/loop.json"))).best).toEqual({ step: 1, value: 5 });
  weight.dispose();
  expect(memoryStats().liveBytes).toBe(bytesBefore);
});

test("a checkpoint that cannot be written fails the next one, and leaves the one before", async () => {
  const weight = tensor([1]);
  const checkpoints = new Checkpoints(root, 3);
  await checkpoints.save(heldTrainer(weight), stateAt(1));
  await checkpoints.settled();
  const broken: SavedTrainer = {
    saveModel: (folder, maxHeldBytes) => heldTrainer(weight).saveModel(join(folder), maxHeldBytes),
    saveState: async () => new Map([[join(root, "no such folder", "file"), { bytes: new Uint8Array(3) }]]),
  };
  await checkpoints.save(broken, stateAt(2));
  await expect(checkpoints.settled()).rejects.toThrow("ENOENT");
  expect(() => checkpoints.expectWritten()).toThrow("ENOENT");
  await checkpoints.close();
  expect(readdirSync(join(root, "checkpoints"))).toEqual(["step-000001"]);
  weight.dispose();
});

test.skipIf(!existsSync("/dev/full"))(
  "a full disk is told with the folder that has no room, also by the thread that writes",
  async () => {
    const weight = tensor([1]);
    const checkpoints = new Checkpoints(root, 3);
    const crowded: SavedTrainer = {
      ...heldTrainer(weight),
      saveState: async (folder) => {
        mkdirSync(folder);
        symlinkSync("/dev/full", join(folder, "s.bin.writing"));
        return new Map([[join(folder, "s.bin"), { bytes: new Uint8Array(3) }]]);
      },
    };
    await checkpoints.save(crowded, stateAt(1));
    await expect(checkpoints.settled()).rejects.toMatchObject({
      code: "DISK_FULL",
      message: `The disk of ${join(root, "checkpoints")} has no room for step-000001. Make room there and run the command again; a run that has a checkpoint goes on with --resume.`,
    });
    await checkpoints.close();
    expect(readdirSync(join(root, "checkpoints"))).toEqual([]);
    weight.dispose();
  },
);

test("what does not fit into the memory that is free is written at once", () => {
  const [first, second] = [tensor([1, 2]), tensor([3, 4])];
  const sink = new HoldingSink(8);
  sink.tensors(join(root, "a.safetensors"), [tensorSource("w", first)]);
  sink.tensors(join(root, "b.safetensors"), [tensorSource("w", second)]);
  expect(readdirSync(root)).toEqual(["b.safetensors"]);
  const held = sink.release();
  expect([...held.keys()]).toEqual([join(root, "a.safetensors")]);
  freeHeld(held);
  for (const one of [first, second]) one.dispose();
});

test("what a killed process has not completed is removed when the run goes on", async () => {
  await new Checkpoints(root, 3).save(trainer, stateAt(1));
  mkdirSync(join(root, "checkpoints/step-000002.writing/model"), { recursive: true });
  expect((await new Checkpoints(root, 3).settle()).step).toBe(1);
  expect(readdirSync(join(root, "checkpoints"))).toEqual(["step-000001"]);
});

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { TuningExample } from "../flow/tuning-example.ts";
import { type MeasuredBy, measuredSets } from "./measured-sets.ts";
import type { TuningSets } from "./prepare-tuning.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-measured-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function setsOf(numExamples: number, digest: string): TuningSets {
  const examples = Array.from(
    { length: numExamples },
    (_, i): TuningExample => ({
      sequences: [{ tokenIds: Int32Array.of(i, 1), lossMask: Uint8Array.of(0, 1) }],
      numbers: { margin: 7 },
    }),
  );
  const counts = { numTokens: 0, numLossTokens: 0, longest: 2, statements: [] };
  return { train: { examples, digest, ...counts }, validation: null };
}

const by: MeasuredBy = {
  objective: { type: "dpo", beta: 0.1, labelSmoothing: 0, lengthNormalized: false },
  reference: null,
};

/** Measures the first token of each example, and counts those that it was asked about. */
function fakeTrainer() {
  const seen = { count: 0 };
  const measure = async (examples: readonly TuningExample[]) => {
    seen.count += examples.length;
    return examples.map(({ sequences }) => ({ first: sequences[0]!.tokenIds[0]! + 0.1 }));
  };
  return { seen, measure };
}

test("every example gets its own numbers beside those it has, and they are measured once for the run", async () => {
  const first = fakeTrainer();
  const { train } = await measuredSets(setsOf(20_000, "a"), first, by, folder);
  expect(train.map(({ numbers }) => numbers!.first)).toEqual(Array.from({ length: 20_000 }, (_, i) => i + 0.1));
  expect(train[5]!.numbers).toEqual({ margin: 7, first: 5.1 });
  const again = fakeTrainer();
  expect((await measuredSets(setsOf(20_000, "a"), again, by, folder)).train).toEqual(train);
  expect([first.seen.count, again.seen.count]).toEqual([20_001, 0]);
});

test("other data is measured anew", async () => {
  await measuredSets(setsOf(2, "a"), fakeTrainer(), by, folder);
  const { train } = await measuredSets(setsOf(3, "b"), fakeTrainer(), by, folder);
  expect(train).toHaveLength(3);
  expect(JSON.parse(readFileSync(join(folder, "measured.json"), "utf8")).train).toHaveLength(3);
});

test("nothing is sent or written for an objective that measures nothing", async () => {
  const { train } = setsOf(3, "a");
  let numSeen = 0;
  const measure = async (examples: readonly TuningExample[]) => {
    numSeen += examples.length;
    return examples.map(() => ({}));
  };
  expect((await measuredSets({ train, validation: null }, { measure }, by, folder)).train).toBe(train.examples);
  expect(numSeen).toBe(1);
  expect(() => readFileSync(join(folder, "measured.json"))).toThrow("ENOENT");
});

test("what was measured for other options, or by another reference, is measured anew", async () => {
  await measuredSets(setsOf(2, "a"), fakeTrainer(), by, folder);
  for (const changed of [{ ...by, reference: "models/other" }, by]) {
    const trainer = fakeTrainer();
    await measuredSets(setsOf(2, "a"), trainer, changed, folder);
    expect(trainer.seen.count).toBe(3);
  }
});

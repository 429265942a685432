import { expect, test } from "vitest";
import type { Prompt } from "../flow/prompt.ts";
import { type CurriculumOptions, curriculum } from "./curriculum.ts";
import { datasetSource } from "./dataset-source.ts";

function makeCurriculum(size: number, options: Partial<CurriculumOptions> = {}, epochs?: number) {
  const prompts: Prompt[] = Array.from({ length: size }, (_, i) => ({
    id: `p${i}`,
    domain: "d",
    seed: i,
    messages: [],
    truth: null,
    extra: {},
  }));
  return curriculum(datasetSource({ name: "set", prompts, seed: 3, isShuffled: false, epochs }), {
    seed: 5,
    ...options,
  });
}

const ids = (list: readonly Prompt[]) => list.map(({ id }) => id);

test("without measurements it passes everything on", async () => {
  expect(ids(await makeCurriculum(3).next(7))).toEqual(["p0", "p1", "p2", "p0", "p1", "p2", "p0"]);
});

test("prompts outside of the band come with the chance of exploring, those inside and at its ends always", async () => {
  const source = makeCurriculum(5, { low: 0.2, high: 0.8, explore: 0.25 });
  await source.next(5);
  for (const [i, numGood] of [0, 1, 4, 5].entries()) {
    source.record(
      `p${i}`,
      [0, 1, 2, 3, 4].map((place) => (place < numGood ? 1 : 0)),
    );
  }
  const given = ids(await source.next(4000));
  const count = (id: string) => given.filter((other) => other === id).length;
  // A pass gives p1, p2 and p4 for certain and p0, p3 one time in four: 3.5 prompts, so 4000 take about 1143 passes.
  expect(Math.abs(count("p1") - count("p2"))).toBeLessThanOrEqual(1);
  expect(Math.abs(count("p1") - 1143)).toBeLessThan(40);
  // Four standard deviations of 1143 draws with chance 1/4 are 59.
  expect(Math.abs(count("p0") - 286)).toBeLessThan(70);
  expect(Math.abs(count("p3") - 286)).toBeLessThan(70);
  expect(Math.abs(count("p1") - count("p4"))).toBeLessThanOrEqual(1);
});

test("a trajectory succeeds with a reward of 1 or more; a new measurement moves the old one half of the way, so a prompt comes back into the band", async () => {
  const source = makeCurriculum(1, { low: 0.4, high: 0.8 });
  await source.next(1);
  source.record("p0", [0, 0.9]);
  source.record("p0", [1, 2.5]);
  expect(source.position()).toMatchObject({ records: [["p0", 0.5]] });
  source.record("p0", [0, 0.9]);
  expect(source.position()).toMatchObject({ records: [["p0", 0.25]] });
});

test("ids that it never gave are left out, and groups without a reward", async () => {
  const source = makeCurriculum(2);
  await source.next(1);
  source.record("p1", [1]);
  source.record("other", [1]);
  source.record("p0", []);
  expect(source.position()).toMatchObject({ records: [["p0", null]] });
});

test("a set that is all too easy still gives prompts, and a limited one ends", async () => {
  const source = makeCurriculum(4, {}, 100);
  for (const { id } of await source.next(4)) source.record(id, [1]);
  expect(await source.next(5)).toHaveLength(5);
  const rest = await source.next(1000);
  expect(rest.length).toBeGreaterThan(5);
  expect(rest.length).toBeLessThan(100);
  expect(await source.next(1)).toEqual([]);
});

test("refuses options out of range, and positions of other options", async () => {
  const source = makeCurriculum(2);
  expect(() => makeCurriculum(2, { low: 0.9, high: 0.1 })).toThrow(
    "low and high must hold 0 <= low <= high <= 1: got 0.9 and 0.1.",
  );
  expect(() => makeCurriculum(2, { explore: 0 })).toThrow("explore must be above 0 and at most 1: got 0.");
  expect(() => makeCurriculum(2, { newest: Number.NaN })).toThrow("newest must be above 0");
  await expect(makeCurriculum(2, { low: 0.3 }).restore(source.position())).rejects.toThrow(
    "its low is 0.1, expected 0.3",
  );
  await expect(makeCurriculum(3).restore(source.position())).rejects.toMatchObject({ code: "STATE_MISMATCH" });
});

test("what counts as success is an option", async () => {
  const source = makeCurriculum(1, { success: 0.5 });
  await source.next(1);
  source.record("p0", [0.5, 0.4, -1, 0.7]);
  expect(source.position()).toMatchObject({ records: [["p0", 0.5]] });
});

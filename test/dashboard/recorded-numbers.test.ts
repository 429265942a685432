/** What a real run records of its tokens is what its trainer saw. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readTrajectories } from "../../src/tracking/read-run.ts";
import type { TrajectoryRecord } from "../../src/tracking/trajectory-record.ts";
import { trainOnLake } from "./real-run.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-numbers-"));
let records: readonly TrajectoryRecord[];

beforeAll(async () => {
  const folder = await trainOnLake(root, "grpo", {
    algorithm: { type: "grpo" },
    tracking: { folder: root, maxGroups: 3 },
  });
  records = (await Promise.all([1, 2].map((step) => readTrajectories(folder, step)))).flatMap(({ values }) => values);
});
afterAll(() => rmSync(root, { recursive: true }));

test("on policy, the trainer's log-prob of every token is the sampler's", () => {
  // Two steps, three of four groups of four.
  expect(records).toHaveLength(24);
  for (const { tokenIds, samplerLogprobs, policyLogprobs } of records.flatMap(({ turns }) => turns)) {
    expect(policyLogprobs).toHaveLength(tokenIds.length);
    // Both are rounded to four digits.
    const gaps = samplerLogprobs.map((logprob, i) => Math.abs(logprob - policyLogprobs![i]!));
    expect(Math.max(...gaps)).toBeLessThan(1.01e-4);
  }
});

test("entropies are those of a policy over a few words that has hardly learned anything", () => {
  const entropies = records.flatMap(({ turns }) => turns.flatMap((turn) => turn.entropies ?? []));
  expect(Math.min(...entropies)).toBeGreaterThan(0.5);
  expect(Math.max(...entropies)).toBeLessThan(Math.log(64));
});

test("all tokens that the model wrote count in the loss", () => {
  for (const { tokenIds, lossMask } of records.flatMap(({ turns }) => turns)) {
    expect(lossMask).toEqual(tokenIds.map(() => true));
  }
});

test("advantages are rewards minus the mean of the group, over their deviation", () => {
  const groups = Array.from({ length: 6 }, (_, i) => records.slice(4 * i, 4 * i + 4));
  const unequal = groups.filter((group) => new Set(group.map(({ reward }) => reward.total)).size > 1);
  expect(unequal.length).toBeGreaterThan(0);
  for (const group of groups) {
    const rewards = group.map(({ reward }) => reward.total);
    const mean = rewards.reduce((sum, reward) => sum + reward) / 4;
    const deviation = Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / 3);
    for (const { reward, advantage, turns } of group) {
      const expected = (reward.total - mean) / (deviation + 1e-6);
      expect(advantage).toBeCloseTo(expected, 3);
      for (const turn of turns) for (const value of turn.advantages ?? []) expect(value).toBeCloseTo(expected, 3);
    }
  }
});

test("the board after the last turn is recorded, and differs from the one before it where the player moved", () => {
  expect(records.every(({ finalStateKey }) => finalStateKey?.split("\n").length === 3)).toBe(true);
  const moved = records.filter(({ turns }) => turns.at(-1)?.metrics.effective_action === 1);
  expect(moved.length).toBeGreaterThan(0);
  for (const { turns, finalStateKey } of moved) expect(finalStateKey).not.toBe(turns.at(-1)?.stateKey);
});

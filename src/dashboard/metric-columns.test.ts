import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MetricColumns } from "./metric-columns.ts";
import { movingAverage } from "./series-window.ts";

test("the moving average weighs the past and leaves out what is not finite", () => {
  // (0.5 * 4 + 8) / 1.5, then nothing new, then (0.5 * 10 + 1) / 1.75.
  const averages = movingAverage([4, 8, Number.NaN, 1], 0.5);
  expect([...averages]).toEqual([4, 20 / 3, 20 / 3, 6 / 1.75]);
});

test("a window holds one point more on each side, and its average is that over all points", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-columns-"));
  const lines = [10, 20, 30, 40, 50].map((value, i) =>
    JSON.stringify({ step: i + 1, timeMs: 1000 * i, kind: "train", metrics: { "reward/mean": value } }),
  );
  const supervised = { step: 900, timeMs: 0, kind: "supervised", metrics: { "supervised/loss": 2, "time/step_ms": 7 } };
  writeFileSync(join(folder, "metrics.jsonl"), `${JSON.stringify(supervised)}\n${lines.join("\n")}\n`);
  const columns = new MetricColumns(folder);
  await columns.file.update();
  const series = columns.series("reward/mean", { maxPoints: 100, smoothing: 0.5, axis: "step", from: 3, to: 3 });
  expect(series).toMatchObject({ steps: [2, 3], values: [20, 30], numPoints: 5, stepRange: [1, 5] });
  expect(series?.smooth).toEqual([25 / 1.5, (12.5 + 30) / 1.75]);
  expect(columns.series("time/step_ms", { maxPoints: 9, smoothing: 0, axis: "step" })).toBe(undefined);
  expect([columns.lastStep, columns.numRecords, columns.last("supervised/loss")]).toEqual([5, 6, 2]);
  rmSync(folder, { recursive: true });
});

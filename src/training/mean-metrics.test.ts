import { expect, test } from "vitest";
import { meanMetrics } from "./mean-metrics.ts";

test("a number is averaged over the records that have it", () => {
  expect(meanMetrics([{ a: 1, b: 5 }, { a: 4 }, { a: 4 }])).toEqual({ a: 3, b: 5 });
  expect(meanMetrics([])).toEqual({});
});

import { expect, test } from "vitest";
import { clip, formatDuration, formatNumber, formatShare, progressBar, sparkline, wrap } from "./format-value.ts";

test.each([
  [0, "0"],
  [0.51234, "0.512"],
  [12.345, "12.3"],
  [999.4, "999"],
  [999.6, "1.00k"],
  [12_345, "12.3k"],
  [4_567_890, "4.57M"],
  [-1234, "-1.23k"],
  [0.00012, "1.2e-4"],
  [Number.NaN, "NaN"],
])("%d is written %s", (value, text) => expect(formatNumber(value)).toBe(text));

test("durations grow from seconds to hours", () => {
  expect([400, 59_400, 60_000, 723_000, 11_109_000].map(formatDuration)).toEqual([
    "0 s",
    "59 s",
    "1:00",
    "12:03",
    "3:05:09",
  ]);
  expect(formatShare(0.1234)).toBe("12 %");
});

test("a sparkline goes from the lowest block to the highest", () => {
  expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20)).toBe("▁▂▃▄▅▆▇█");
  expect(sparkline([5, 5], 20)).toBe("▁▁");
  expect(sparkline([], 20)).toBe("");
});

test("more values than columns are averaged, and NaN is left out", () => {
  expect(sparkline([0, 0, Number.NaN, 1, 1], 2)).toBe("▁█");
});

test("text is clipped and wrapped to a width", () => {
  expect(clip("abcdef", 4)).toBe("abc…");
  expect(wrap("one two three four", 9, 5)).toEqual(["one two", "three", "four"]);
  expect(wrap("one two three four", 9, 2)).toEqual(["one two", "three …"]);
});

test("a bar is filled to its share", () => {
  expect(progressBar(0.5, 4)).toBe("━━──");
  expect(progressBar(2, 2)).toBe("━━");
});

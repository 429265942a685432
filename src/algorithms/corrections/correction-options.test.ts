import { expect, test } from "vitest";
import { type RolloutCorrectionOptions, resolveCorrection } from "./correction-options.ts";

test("no options mean no correction", () => {
  expect(resolveCorrection({})).toEqual({ importance: null, criteria: [] });
});

test("a threshold t is [1/t, t] under ratio and an upper bound under verl", () => {
  const importance = { level: "token", threshold: "2.0" } as const;
  expect(resolveCorrection({ importance }).importance).toMatchObject({ low: 0.5, high: 2, outside: "clip" });
  expect(resolveCorrection({ importance, convention: "verl" }).importance).toMatchObject({
    low: null,
    high: 2,
    outside: "clip",
  });
});

test("k1 bounds are weights under ratio and logs under verl", () => {
  const rejections = { seq_mean_k1: "0.5_4" } as const;
  expect(resolveCorrection({ rejections }).criteria).toEqual([
    { name: "seq_mean_k1", statistic: "weight", over: "mean", low: 0.5, high: 4, scope: "token" },
  ]);
  expect(resolveCorrection({ rejections, convention: "verl" }).criteria).toEqual([
    { name: "seq_mean_k1", statistic: "k1", over: "mean", low: Math.log(0.5), high: Math.log(4), scope: "token" },
  ]);
});

test.each<[string, RolloutCorrectionOptions, RegExp]>([
  [
    "a threshold of 0",
    { importance: { level: "token", threshold: 0 } },
    /importance.threshold must be a number above 0.*got 0/,
  ],
  ["a threshold that is no number", { importance: { level: "token", threshold: "x_2" } }, /got "x_2"/],
  ["an empty threshold", { importance: { level: "token", threshold: "" } }, /got ""/],
  ["bounds in the wrong order", { importance: { level: "token", threshold: "2_0.5" } }, /Write "0.5_2"/],
  ["two bounds for k2", { rejections: { token_k2: "0.5_2" } }, /rejections.token_k2 takes one upper bound/],
  ["a single k1 bound below 1", { rejections: { token_k1: 0.5 } }, /must be at least 1 when it is a single number/],
  [
    "a name of ratio under verl",
    { convention: "verl", rejections: { sequence: "0.5_2" } },
    /"sequence" is not a rejection/,
  ],
  ["scope under verl", { convention: "verl", scope: "sequence" }, /scope: sequence.*belong to the ratio convention/],
])("%s is refused", (_, options, message) => {
  expect(() => resolveCorrection(options)).toThrow(message);
});

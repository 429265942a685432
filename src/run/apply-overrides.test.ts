import { expect, test } from "vitest";
import { applyOverrides, parseOverride } from "./apply-overrides.ts";

test.each([
  ["a=1", 1],
  ["a=0.28", 0.28],
  ["a=true", true],
  ["a=null", null],
  ['a="1"', "1"],
  ["a=[1, 2]", [1, 2]],
  ['a={"type":"async"}', { type: "async" }],
  ["a=cuda:0", "cuda:0"],
  ["a=./models/b=c", "./models/b=c"],
  ["a=", ""],
])("the value of %s is JSON, or else the text", (text, value) => {
  expect(parseOverride(text)).toEqual({ path: ["a"], value });
});

test.each(["a", "=1", "a..b=1", ".a=1", "__proto__.x=1"])("%s is refused with an example", (text) => {
  expect(() => parseOverride(text)).toThrow("--set takes key=value, as in rollout.groupSize=16");
});

test("broken JSON is refused and not taken for a text", () => {
  expect(() => parseOverride("rollout.filter.meanReward=[0.1,")).toThrow(
    /rollout\.filter\.meanReward starts with \[ and is not JSON, where keys are in double quotes\./,
  );
});

const set = (raw: Record<string, unknown>, ...texts: string[]) => applyOverrides(raw, texts.map(parseOverride));

test("deep paths go through records, and the object that was given stays as it was", () => {
  const raw = { envs: { math: { type: "countdown" } }, seed: 1 };
  expect(set(raw, "envs.math.size=5", "envs.lake.type=frozen-lake")).toEqual({
    envs: { math: { type: "countdown", size: 5 }, lake: { type: "frozen-lake" } },
    seed: 1,
  });
  expect(raw.envs.math).toEqual({ type: "countdown" });
});

test("a choice that nobody wrote starts from its default", () => {
  expect(set({}, "algorithm.clipHigh=0.28", "loop.steps=5")).toEqual({
    algorithm: { type: "grpo", clipHigh: 0.28 },
    loop: { type: "sync", steps: 5 },
  });
});

test("null on the way is replaced by an object", () => {
  expect(set({ model: { lora: null } }, "model.lora.rank=4")).toEqual({ model: { lora: { rank: 4 } } });
});

test("lists are indexed, and one place behind the end appends", () => {
  const raw = { data: { parts: [{ ratio: 1 }] } };
  expect(set(raw, "data.parts.0.ratio=2", "data.parts.1.ratio=3")).toEqual({
    data: { parts: [{ ratio: 2 }, { ratio: 3 }] },
  });
  expect(() => set(raw, "data.parts.2.ratio=3")).toThrow(
    "data.parts is a list of 1. Use data.parts.0 to data.parts.1.",
  );
});

test("a key below a plain value is refused", () => {
  expect(() => set({ seed: 3 }, "seed.x=1")).toThrow("--set seed.x: seed is 3 and has no keys. Set seed itself.");
});

test("the last value of a key wins", () => {
  expect(set({}, "seed=1", "seed=2")).toEqual({ seed: 2 });
});

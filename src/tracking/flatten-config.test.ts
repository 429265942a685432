import { expect, test } from "vitest";
import { flattenConfig } from "./flatten-config.ts";

test("a nested config becomes names with dots; lists, null and empty objects become JSON", () => {
  const config = { algorithm: { type: "grpo", clip: { high: 0.28 } }, tags: ["a", 1], lora: null, extra: {}, ok: true };
  expect(flattenConfig(config)).toEqual({
    "algorithm.type": "grpo",
    "algorithm.clip.high": 0.28,
    tags: '["a",1]',
    lora: "null",
    extra: "{}",
    ok: true,
  });
});

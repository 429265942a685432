import { expect, test } from "vitest";
import { createPreset } from "../../models/causal-lm/presets.ts";
import { LocalEngine } from "./local-engine.ts";
import { numSteadyRows, steadyMultiple } from "./steady-rows.ts";

test("rows are filled until the result has more than 1200 numbers, and never fewer than two", () => {
  expect(numSteadyRows(64)).toBe(19);
  expect(numSteadyRows(16)).toBe(76);
  expect(numSteadyRows(600)).toBe(3);
  expect(numSteadyRows(5000)).toBe(2);
});

test("rows come in multiples that leave no rest of 32 values in any of their widths", () => {
  expect([steadyMultiple([32, 8192]), steadyMultiple([16, 64]), steadyMultiple([4, 56]), steadyMultiple([3])]).toEqual([
    1, 2, 8, 32,
  ]);
});

test("a steady engine gives a request the same bits, whatever else it runs", async () => {
  const model = createPreset("nano", 48, 1);
  const engine = new LocalEngine(model, { contextLength: 64, isSteady: true });
  const request = (i: number, maxTokens: number) =>
    engine.generate({
      promptIds: Array.from({ length: 3 + 5 * i }, (_, k) => (7 * k + i) % 48),
      sampling: { maxTokens, seed: i },
    });
  const alone = await request(0, 12);
  const [among] = await Promise.all([request(0, 12), ...[1, 2, 3, 4, 5, 6].map((i) => request(i, 2 + i))]);
  expect(among!.tokenIds).toEqual(alone.tokenIds);
  expect(among!.samplerLogprobs).toEqual(alone.samplerLogprobs);
  await engine.close();
  model.dispose();
});

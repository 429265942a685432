import { expect, test } from "vitest";
import { tensorScope } from "../../torch/scope.ts";
import { parseConfig, toHuggingFaceConfig } from "./config.ts";
import { createPreset, type PresetName, presetConfig } from "./presets.ts";

test.each<[PresetName, number, number]>([
  ["nano", 108_928, 64],
  ["micro", 857_472, 128],
  ["mini", 5_123_712, 256],
  ["small", 25_191_936, 512],
])("%s has the documented size: %i, and %i per token", (name, size, perToken) => {
  for (const extra of [0, 3]) {
    const model = createPreset(name, 32 + extra, 1);
    expect(model.numParameters()).toBe(size + extra * perToken);
    model.dispose();
  }
});

test("a preset is a config that can be saved and loaded", () => {
  const config = presetConfig("micro", 100);
  expect(parseConfig(toHuggingFaceConfig(config), "config.json")).toEqual(config);
});

test("another seed is another model", () => {
  const [a, b] = [createPreset("nano", 32, 1), createPreset("nano", 32, 2)];
  expect(tensorScope(() => a.embedding.sub(b.embedding).abs().max().item())).toBeGreaterThan(0);
  a.dispose();
  b.dispose();
});

test("an unknown name and a vocabulary of nothing are refused", () => {
  // @ts-expect-error The name comes from a run file.
  expect(() => presetConfig("huge", 32)).toThrow('no preset "huge". Choose one of nano, micro, mini, small');
  expect(() => presetConfig("nano", 0)).toThrow("vocabSize must be an integer of at least 1: got 0");
});

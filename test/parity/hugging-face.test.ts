/** Every model of fixtures/hf-tiny computes what Hugging Face transformers computed: see fixtures/hf-tiny. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { checkModel, goldenModels } from "../../scripts/parity/hugging-face.ts";

const folder = fileURLToPath(new URL("../../fixtures/hf-tiny", import.meta.url));
const bar = 1e-4;

test("there is a golden model of every family", () => {
  expect(goldenModels(folder)).toEqual(["llama", "llama3-rope", "mistral", "qwen2", "qwen3", "qwen3-moe"]);
});

test.each(goldenModels(folder))("%s: log-probabilities, entropy, loss, gradients and greedy tokens", (name) => {
  const { errors, greedyMismatches } = checkModel(folder, name);
  const wrong = Object.entries(errors).filter(([, error]) => !(error <= bar));
  expect(wrong).toEqual([]);
  expect(Object.keys(errors)).toHaveLength(16);
  expect(greedyMismatches).toBe(0);
});

/** Every model of fixtures/hf-tiny computes what Hugging Face transformers computed: see fixtures/hf-tiny. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { checkModel, goldenModels } from "../../scripts/parity/hugging-face.ts";
import { familyNames } from "../../src/models/causal-lm/families/table.ts";

const folder = fileURLToPath(new URL("../../fixtures/hf-tiny", import.meta.url));
const bar = 1e-4;

test("there is a golden model of every family", () => {
  const modelTypes = goldenModels(folder).map(
    (name) => JSON.parse(readFileSync(join(folder, name, "config.json"), "utf8")).model_type,
  );
  expect(new Set(modelTypes)).toEqual(new Set(familyNames));
});

test.each(goldenModels(folder))("%s: log-probabilities, entropy, loss, gradients and greedy tokens", (name) => {
  const { errors, greedyMismatches } = checkModel(folder, name);
  const wrong = Object.entries(errors).filter(([, error]) => !(error <= bar));
  expect(wrong).toEqual([]);
  expect(Object.keys(errors)).toHaveLength(16);
  expect(greedyMismatches).toBe(0);
});

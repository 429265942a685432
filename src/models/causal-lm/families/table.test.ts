import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { tinyConfig } from "../../../testing/tiny-model.ts";
import { CausalLm } from "../causal-lm.ts";
import { namedWeights } from "../weight-names.ts";
import type { ModelFamily } from "./family.ts";
import { families, familyNames } from "./table.ts";

const src = fileURLToPath(new URL("../../..", import.meta.url));

test("no file outside this folder lists families or decides by more than one of their names", () => {
  const literals = familyNames.map((name) => `"${name}"`);
  const listing = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .filter((file) => !file.startsWith("models/causal-lm/families/"))
    // Names of rules for cutting text, some of which are those of models.
    .filter((file) => file !== "chat/tokenizer/gguf/pre-tokenizers.ts")
    .filter((file) => {
      const text = readFileSync(`${src}/${file}`, "utf8");
      return literals.filter((literal) => text.includes(literal)).length > 1;
    });
  expect(listing).toEqual([]);
});

test.each(familyNames)("%s has names of its own for every weight, on Hugging Face and in GGUF", (name) => {
  const family: ModelFamily = families[name];
  const all = [...Object.values(family.names.model), ...Object.values(family.names.layer)];
  expect(new Set(all.map(({ huggingFace }) => huggingFace)).size).toBe(all.length);
  expect(new Set(all.map(({ gguf }) => gguf)).size).toBe(all.length);
  const model = new CausalLm(tinyConfig(name), { device: "meta" });
  const weights = namedWeights(model).map((weight) => weight.name);
  expect(new Set(weights).size).toBe(weights.length);
  expect(weights.filter((weight) => weight.includes("*") || weight.includes("undefined"))).toEqual([]);
  model.dispose();
});

test("a model with a part that its family has no name for is our own mistake", () => {
  const model = new CausalLm(tinyConfig("llama", { features: { hasHeadNorm: true } }), { device: "meta" });
  expect(() => namedWeights(model)).toThrow("internal: the family names no queryNorm, which the model has");
  model.dispose();
});

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { resolveCheckpoint } from "../formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../formats/tensor-files.ts";
import { addLora, loraAdapters } from "./lora.ts";
import { mergedWeights } from "./merged-weights.ts";
import { saveSequenceClassifier } from "./save-causal-lm.ts";
import { ValueHead } from "./value-head.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-classifier-"));
afterAll(() => rmSync(root, { recursive: true }));

// What transformers 5.22 makes of such folders was compared once for all five families: no weight missing or left over, scores within 1e-6.
test("a decoder with a head is saved as a classifier of one label, without an output matrix and with adapters merged in", () => {
  const model = tinyModel(tinyConfig("llama", { tieEmbeddings: false }));
  const generator = new Generator(3);
  addLora(model, { rank: 2, alpha: 4, targets: ["q_proj"], generator });
  for (const { b } of loraAdapters(model).values()) b.detach().fill_(0.5);
  const head = new ValueHead(model.config.width, { initial: { std: 1, generator } });
  saveSequenceClassifier(model, head, root);
  const config = JSON.parse(readFileSync(join(root, "config.json"), "utf8")) as Record<string, unknown>;
  expect(config).toMatchObject({
    architectures: ["LlamaForSequenceClassification"],
    num_labels: 1,
    id2label: { 0: "score" },
    tie_word_embeddings: false,
  });
  const checkpoint = resolveCheckpoint(root);
  expect(checkpoint.tensors.has("lm_head.weight")).toBe(false);
  const mapped = new MappedCheckpoint(checkpoint);
  const name = "model.layers.0.self_attn.q_proj.weight";
  tensorScope(() => {
    expect(mapped.read("score.weight").toArray()).toEqual(head.weight.toArray());
    expect(mapped.read(name).toArray()).toEqual(mergedWeights(model).get(name)!.toArray());
  });
  mapped.dispose();
  generator.dispose();
});

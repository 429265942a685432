import { expect, test } from "vitest";
import { namedWeights } from "../../models/causal-lm/weight-names.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { ones } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { copyWeights } from "./copy-weights.ts";

test.each(["llama", "qwen3_moe"] as const)("every weight of %s arrives under its name", (family) => {
  const [target, source] = [1, 2].map((seed) => tinyModel(tinyConfig(family), { seed })) as [Model, Model];
  copyWeights(target, weightsOf(source));
  for (const [name, value] of weightsOf(target))
    expect(value.toArray()).toEqual(weightsOf(source).get(name)!.toArray());
});

test("weights in another type are converted", () => {
  const target = tinyModel(tinyConfig("qwen3"));
  const weights = weightsOf(target);
  const half = new Map([...weights].map(([name, value]) => [name, value.mul(0).add(0.5).to("bfloat16")]));
  copyWeights(target, half);
  expect(weights.get("model.norm.weight")!.toArray()).toEqual(new Array(16).fill(0.5));
});

test("a weight that is missing, unknown or of another shape is named, and nothing is written", () => {
  const target = tinyModel(tinyConfig("qwen3"));
  const before = target.embedding.toArray();
  const weights = new Map([...weightsOf(target)].map(([name, value]) => [name, value.add(1)]));
  const name = "model.norm.weight";
  const change = (value: Tensor | null, key = name) => {
    const changed = new Map(weights);
    if (value === null) changed.delete(key);
    else changed.set(key, value);
    return () => copyWeights(target, changed);
  };
  expect(change(null)).toThrow(`The engine's model got no weight "${name}". Send all weights`);
  expect(change(ones([1]), "lm_head.weight")).toThrow('The engine\'s model has no weight "lm_head.weight"');
  expect(change(ones([3]))).toThrow(`Weight "${name}" has shape [3]; the engine's model has [16].`);
  expect(target.embedding.toArray()).toEqual(before);
});

type Model = ReturnType<typeof tinyModel>;

function weightsOf(model: Model): Map<string, Tensor> {
  return new Map(namedWeights(model).map(({ name, parameter, viewOf }) => [name, viewOf(parameter.detach())]));
}

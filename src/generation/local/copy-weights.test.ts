import { expect, test, vi } from "vitest";
import { adapterWeights } from "../../models/causal-lm/adapter-weights.ts";
import { addLora, removeLora } from "../../models/causal-lm/lora.ts";
import { quantizeModel } from "../../models/causal-lm/quantize-model.ts";
import { namedWeights } from "../../models/causal-lm/weight-names.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import { ones } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { copyWeights } from "./copy-weights.ts";
import { LocalEngine } from "./local-engine.ts";
import { ModelRunner } from "./model-runner.ts";

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

test("adapters of quantized weights are written where the first ones are, and others make the engine record its steps again", async () => {
  const sizes = { width: 32, headSize: 8, mlpWidth: 32 };
  const [model, source] = [1, 2].map((seed) => tinyModel(tinyConfig("llama", sizes), { seed })) as [Model, Model];
  quantizeModel(model, "int8", "cpu");
  addLora(source, { rank: 2, alpha: 4, targets: "all-linear", generator: new Generator(1) });
  const forget = vi.spyOn(ModelRunner.prototype, "forget");
  const engine = new LocalEngine(model, { contextLength: 16 });
  const firstOf = (one: Model) => one.layers[0]!.attention.projections[0]!.adapters[0]!;
  const publish = (version: number) => engine.updateWeights(version, (own) => copyWeights(own, adapterWeights(source)));
  publish(1);
  const { a } = firstOf(model);
  expect(forget).toHaveBeenCalledTimes(1);
  noGrad(() => firstOf(source).a.mul_(3));
  publish(2);
  // The same tensor with new values: what was recorded over it holds.
  expect(firstOf(model).a).toBe(a);
  expect(a.toArray()).toEqual(firstOf(source).a.toArray());
  expect(forget).toHaveBeenCalledTimes(1);
  removeLora(source);
  addLora(source, { rank: 3, alpha: 4, targets: "all-linear", generator: new Generator(1) });
  publish(3);
  expect(firstOf(model).a.shape).toEqual([3, 32]);
  expect(forget).toHaveBeenCalledTimes(2);
  await engine.close();
  for (const one of [model, source]) one.dispose();
});

type Model = ReturnType<typeof tinyModel>;

function weightsOf(model: Model): Map<string, Tensor> {
  return new Map(namedWeights(model).map(({ name, parameter, viewOf }) => [name, viewOf(parameter.detach())]));
}

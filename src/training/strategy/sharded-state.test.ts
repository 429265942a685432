import { expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { native } from "../../torch/binding.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { tensorScope } from "../../torch/scope.ts";
import { meshOfOne } from "./mesh.ts";
import { spreadStrategy } from "./spread-strategy.ts";

test("a state is collected a layer at a time, and what was collected is what is there", async () => {
  const model = tinyModel(tinyConfig("qwen3", { numLayers: 8 }));
  const strategy = spreadStrategy(meshOfOne, { zero: 1, offload: "none" }, "cpu");
  const optimizer = await strategy.optimize(model, model.namedParameters(), (all) => new AdamW(all, { lr: 1e-3 }));
  tensorScope(() => {
    const sums = model.parameters().map((parameter) => parameter.square().sum());
    for (const sum of sums) sum.backward();
  });
  await strategy.reduceGradients();
  optimizer.step();
  optimizer.zeroGrad();
  const state = await strategy.collect(optimizer);
  const { liveBytes } = native.memoryStats();
  let [most, total] = [0, 0];
  const parameters = model.namedParameters();
  for (const { of, name, shape, gather } of state.tensors) {
    const isEqual = tensorScope(() => {
      const value = gather();
      expect(value.shape).toEqual(shape);
      total += 4 * value.numel;
      most = Math.max(most, native.memoryStats().liveBytes - liveBytes);
      return of === "optimizer" || value.sub(parameters.get(name)!.detach()).abs().max().item() === 0;
    });
    expect(isEqual, name).toBe(true);
  }
  // Weights and two moments; of one of 8 layers at a time, and the copy that it is made from.
  expect(total).toBe(3 * 4 * model.parameters().reduce((sum, { numel }) => sum + numel, 0));
  expect(most).toBeLessThan(total / 6);
  state.dispose();
  expect(native.memoryStats().liveBytes).toBeLessThanOrEqual(liveBytes);
  expect(state.numbers["step.embedding"]).toBe(1);
});

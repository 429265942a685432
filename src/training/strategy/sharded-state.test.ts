import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { native } from "../../torch/binding.ts";
import { tensor } from "../../torch/create.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { tensorScope } from "../../torch/scope.ts";
import { readShards, writeShard } from "../state-shards.ts";
import { meshOfOne } from "./mesh.ts";
import { spreadStrategy } from "./spread-strategy.ts";

const numbers = { "step.w": 3, "lr.0": 0.5 };
const values = Array.from({ length: 12 }, (_, i) => i);
const cut = (index: number) => ({ dim: 0, sizes: [2, 2], ranks: { index, count: 2 } });

test("parts that tensor ranks and their replicas wrote are read whole, and cut in other ways", () => {
  const folder = mkdtempSync(join(tmpdir(), "shards-"));
  tensorScope(() => {
    // Of [0..2 | 3..5 | 6..8 | 9..11], rank t has rows t and 2 + t; each of two replicas has a stretch of that.
    const rows = [
      [0, 1, 2, 6, 7, 8],
      [3, 4, 5, 9, 10, 11],
    ];
    for (const [t, own] of rows.entries())
      for (const replica of [0, 1]) {
        const stretch = { start: 4 * replica, length: replica === 0 ? 4 : 2 };
        const value = tensor(own.slice(stretch.start, stretch.start + stretch.length));
        const part = { cut: cut(t), stretch };
        const entry = { of: "parameters" as const, name: "w", value, part, shape: [4, 3] };
        writeShard(folder, { tensors: [entry], numbers }, { index: 2 * replica + t, count: 4 });
      }
  });
  expect(readdirSync(folder)).toHaveLength(8);
  readShards(folder, (state) => {
    const read = (part: Parameters<typeof state.readParameter>[1]) =>
      tensorScope(() => state.readParameter("w", part).reshape(-1).toArray());
    expect(state.numbers).toEqual(numbers);
    expect(read({ cut: null, stretch: null })).toEqual(values);
    expect(read({ cut: null, stretch: { start: 5, length: 3 } })).toEqual([5, 6, 7]);
    expect(read({ cut: cut(1), stretch: null })).toEqual([3, 4, 5, 9, 10, 11]);
    expect(read({ cut: cut(1), stretch: { start: 4, length: 2 } })).toEqual([10, 11]);
    expect(read({ cut: { dim: 1, sizes: [3], ranks: { index: 2, count: 3 } }, stretch: null })).toEqual([2, 5, 8, 11]);
  });
});

test("a shard that is missing is named", () => {
  const folder = mkdtempSync(join(tmpdir(), "shards-"));
  writeShard(folder, { tensors: [], numbers }, { index: 1, count: 2 });
  expect(() => readShards(folder, () => {})).toThrow(/optimizer-0-of-2\.safetensors does not exist/);
});

test("a rank saves its own memory: nothing is copied, and what is saved is what is there", async () => {
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
  const { liveBytes } = native.memoryStats();
  const parameters = model.namedParameters();
  tensorScope(() => {
    const { tensors, numbers: known } = strategy.parts(optimizer);
    expect(native.memoryStats().liveBytes).toBe(liveBytes);
    expect(tensors).toHaveLength(3 * parameters.size);
    expect(known["step.embedding"]).toBe(1);
    for (const { of, name, value, shape, part } of tensors) {
      expect(value.shape).toEqual(shape);
      expect(part).toEqual({ cut: null, stretch: null });
      const own = parameters.get(name);
      if (of === "parameters") expect(value.sub(own!.detach()).abs().max().item(), name).toBe(0);
    }
  });
});

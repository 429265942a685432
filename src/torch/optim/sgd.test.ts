import { expect, test } from "vitest";
import { noGrad } from "../autograd.ts";
import { native } from "../binding.ts";
import { tensor } from "../create.ts";
import { Parameter } from "../nn/module.ts";
import { tensorScope } from "../scope.ts";
import { SGD, type SGDOptions } from "./sgd.ts";

function run(options: SGDOptions, gradients: readonly number[]) {
  const w = new Parameter(tensor([1]));
  const optimizer = new SGD(new Map([["w", w]]), options);
  for (const gradient of gradients) {
    w.grad = tensor([gradient]);
    optimizer.step();
  }
  return { w, optimizer };
}

test("sgd steps against the gradient", () => {
  expect(run({ lr: 0.5 }, [1]).w.item()).toBe(0.5);
});

test("a factor is multiplied with the gradient", () => {
  const { w, optimizer } = run({ lr: 0.5 }, []);
  w.grad = tensor([4]);
  optimizer.step(tensor(0.25));
  expect(w.item()).toBe(0.5);
});

test("weight decay is part of the gradient", () => {
  // 1 - 0.5 * (1 + 0.5 * 1)
  expect(run({ lr: 0.5, weightDecay: 0.5 }, [1]).w.item()).toBe(0.25);
});

test("momentum keeps a share of the last direction", () => {
  // Directions 1, then 0.5 * 1 + 2.
  expect(run({ lr: 0.5, momentum: 0.5 }, [1, 2]).w.item()).toBe(1 - 0.5 - 1.25);
});

test("nesterov looks ahead", () => {
  // Directions 1 + 0.5 * 1, then 2 + 0.5 * 2.5.
  expect(run({ lr: 0.5, momentum: 0.5, isNesterov: true }, [1, 2]).w.item()).toBe(1 - 0.75 - 1.625);
});

test("a loaded optimizer continues like the one that was saved", () => {
  const options = { lr: 0.5, momentum: 0.5 };
  const saved = run(options, [1, 2]);
  const resumed = run(options, []);
  noGrad(() => resumed.w.copy_(saved.w));
  resumed.optimizer.loadStateDict(saved.optimizer.stateDict());
  for (const { w, optimizer } of [saved, resumed]) {
    w.grad = tensor([3]);
    optimizer.step();
  }
  expect(resumed.w.item()).toBe(saved.w.item());
  expect([...resumed.optimizer.stateDict().tensors.keys()]).toEqual(["velocity.w"]);
});

test("nesterov needs momentum", () => {
  expect(() => run({ lr: 1, isNesterov: true }, [])).toThrow("isNesterov needs momentum above 0: got 0.");
});

test("steps leave live bytes flat", () => {
  const { w, optimizer } = run({ lr: 0.1, momentum: 0.9, weightDecay: 0.1 }, [1]);
  const step = () =>
    tensorScope(() => {
      w.square().sum().backward();
      optimizer.step();
      optimizer.zeroGrad();
    });
  step();
  const { liveBytes } = native.memoryStats();
  for (let i = 0; i < 20; i++) step();
  expect(native.memoryStats().liveBytes).toBe(liveBytes);
});

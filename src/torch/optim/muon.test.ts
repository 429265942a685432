import { expect, test } from "vitest";
import { noGrad } from "../autograd.ts";
import { native } from "../binding.ts";
import { randn, tensor } from "../create.ts";
import { Parameter } from "../nn/module.ts";
import { Generator } from "../random.ts";
import { tensorScope } from "../scope.ts";
import { isInnerMatrix, Muon, type MuonOptions, orthogonalise } from "./muon.ts";

/** Five steps of 3.4445 s - 4.775 s^3 + 2.0315 s^5, which is what happens to a singular value. */
function afterSteps(singular: number): number {
  let s = singular;
  for (let i = 0; i < 5; i++) s = 3.4445 * s - 4.775 * s ** 3 + 2.0315 * s ** 5;
  return s;
}

function run(options: MuonOptions, gradients: readonly (readonly number[])[]) {
  const w = new Parameter(tensor([1, 0, 0, 1], { dtype: "float32" }).view(2, 2));
  const norm = new Parameter(tensor([1]));
  const optimizer = new Muon(
    new Map([
      ["layers.0.w", w],
      ["norm", norm],
    ]),
    options,
  );
  for (const gradient of gradients) {
    w.grad = tensor([...gradient]).view(2, 2);
    norm.grad = tensor([1]);
    optimizer.step();
  }
  return { w, norm, optimizer };
}

test("singular values come close to one, and their directions stay", () => {
  // diag(3, 4) has the norm 5, so the iteration starts at 0.6 and 0.8.
  const [a, b, c, d] = orthogonalise(tensor([3, 0, 0, 4]).view(1, 2, 2))
    .flatten()
    .toArray();
  expect(a).toBeCloseTo(afterSteps(0.6), 4);
  expect(d).toBeCloseTo(afterSteps(0.8), 4);
  expect([b, c]).toEqual([0, 0]);
  for (const value of [a!, d!]) expect(Math.abs(value - 1)).toBeLessThan(0.35);
});

test("tall and wide matrices are made orthogonal alike", () => {
  const generator = new Generator(1);
  const wide = randn([2, 3, 8], { generator });
  const tall = orthogonalise(wide.transpose(1, 2));
  const difference = tall.transpose(1, 2).sub(orthogonalise(wide)).abs().max().item();
  expect(difference).toBeLessThan(1e-5);
});

test("the first step moves a matrix by 0.2 sqrt(2) lr along the orthogonal direction", () => {
  const { w } = run({ lr: 0.5 }, [[3, 0, 0, 4]]);
  const [a, , , d] = w.detach().flatten().toArray();
  expect(a).toBeCloseTo(1 - 0.5 * 0.2 * Math.SQRT2 * afterSteps(0.6), 4);
  expect(d).toBeCloseTo(1 - 0.5 * 0.2 * Math.SQRT2 * afterSteps(0.8), 4);
});

test("weight decay shrinks matrices before the step", () => {
  const plain = run({ lr: 0.5 }, [[1, 0, 0, 1]])
    .w.detach()
    .flatten()
    .toArray();
  const decayed = run({ lr: 0.5, weightDecay: 0.1 }, [[1, 0, 0, 1]])
    .w.detach()
    .flatten()
    .toArray();
  expect(decayed[0]).toBeCloseTo(plain[0]! - 0.05, 5);
});

test("everything that is no inner matrix is AdamW's", () => {
  // Adam's first step is the learning rate.
  expect(run({ lr: 0.5 }, [[1, 0, 0, 1]]).norm.item()).toBeCloseTo(0.5, 5);
  const matrix = new Parameter(tensor([1]).view(1, 1));
  expect(isInnerMatrix("model.layers.0.q_proj.weight", matrix)).toBe(true);
  expect(isInnerMatrix("embedding", matrix)).toBe(false);
  expect(isInnerMatrix("lm_head.weight", matrix)).toBe(false);
  expect(isInnerMatrix("norm.weight", new Parameter(tensor([1])))).toBe(false);
});

test("a loaded optimizer continues like the one that was saved", () => {
  const gradients = [
    [1, 2, 3, 4],
    [0, 1, -1, 2],
  ];
  const saved = run({ lr: 0.1 }, gradients);
  const resumed = run({ lr: 0.1 }, []);
  noGrad(() => {
    resumed.w.copy_(saved.w);
    resumed.norm.copy_(saved.norm);
  });
  resumed.optimizer.loadStateDict(saved.optimizer.stateDict());
  for (const { w, norm, optimizer } of [saved, resumed]) {
    w.grad = tensor([1, 1, 0, 1]).view(2, 2);
    norm.grad = tensor([2]);
    optimizer.step();
  }
  expect(resumed.w.flatten().toArray()).toEqual(saved.w.flatten().toArray());
  expect(resumed.norm.item()).toBe(saved.norm.item());
});

test("a model without inner matrices is refused", () => {
  expect(() => new Muon(new Map([["norm", new Parameter(tensor([1]))]]), { lr: 1 })).toThrow("Use AdamW.");
});

test("steps leave live bytes flat, and dispose frees the state", () => {
  const w = new Parameter(randn([8, 4], { generator: new Generator(0) }));
  const optimizer = new Muon(new Map([["w", w]]), { lr: 0.01 });
  const step = () =>
    tensorScope(() => {
      w.square().sum().backward();
      optimizer.step();
      optimizer.zeroGrad();
    });
  const before = native.memoryStats().liveBytes;
  step();
  const { liveBytes } = native.memoryStats();
  for (let i = 0; i < 20; i++) step();
  expect(native.memoryStats().liveBytes).toBe(liveBytes);
  optimizer.dispose();
  expect(native.memoryStats().liveBytes).toBe(before);
});

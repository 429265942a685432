import { describe, expect, test } from "vitest";
import { noGrad } from "../autograd.ts";
import { native } from "../binding.ts";
import { randn, tensor } from "../create.ts";
import type { DType } from "../dtype.ts";
import { MLP } from "../nn/mlp.ts";
import { Parameter } from "../nn/module.ts";
import { Generator } from "../random.ts";
import { tensorScope } from "../scope.ts";
import { AdamW } from "./adamw.ts";
import { clipGradNorm } from "./clip-grad-norm.ts";

function parameterOf(values: number[], dtype: DType = "float32"): Parameter {
  return new Parameter(tensor(values, { dtype }));
}

function setGradient(parameter: Parameter, values: number[]): void {
  parameter.grad = tensor(values, { dtype: parameter.dtype });
}

function expectClose(parameter: Parameter, expected: readonly number[]): void {
  for (const [i, value] of parameter.toArray().entries()) expect(value).toBeCloseTo(expected[i]!, 5);
}

describe("one step", () => {
  test("the first update is the learning rate against the sign of the gradient", () => {
    const w = parameterOf([1, 1]);
    setGradient(w, [5, -0.01]);
    new AdamW(new Map([["w", w]]), { lr: 0.1, weightDecay: 0 }).step();
    expectClose(w, [0.9, 1.1]);
  });

  test("a factor is multiplied with the gradient, which stays as it is", () => {
    const step = (gradients: number[], factor: number | null) => {
      const w = parameterOf([1, 2]);
      const optimizer = new AdamW(new Map([["w", w]]), { lr: 0.1, eps: 1 });
      setGradient(w, gradients);
      optimizer.step(factor === null ? null : tensor(factor));
      return [...w.toArray(), ...w.grad!.toArray()];
    };
    expect(step([4, -2], 0.5)).toEqual([...step([2, -1], null).slice(0, 2), 4, -2]);
  });

  test("weight decay shrinks the weight and does not enter the moments", () => {
    const w = parameterOf([1]);
    setGradient(w, [2]);
    new AdamW(new Map([["w", w]]), { lr: 0.1, weightDecay: 0.5 }).step();
    // 1 - 0.1 * 0.5 - 0.1
    expectClose(w, [0.85]);
  });

  test("the second update follows the formula", () => {
    const w = parameterOf([0]);
    const optimizer = new AdamW(new Map([["w", w]]), { lr: 1, betas: [0.5, 0.5], eps: 0, weightDecay: 0 });
    setGradient(w, [1]);
    optimizer.step();
    setGradient(w, [3]);
    optimizer.step();
    // m = 0.25 + 1.5 = 1.75, over 0.75; v = 0.25 + 4.5 = 4.75, over 0.75.
    expectClose(w, [-1 - 1.75 / 0.75 / Math.sqrt(4.75 / 0.75)]);
  });

  test("a parameter without gradient keeps its value and its count of steps", () => {
    const a = parameterOf([1]);
    const b = parameterOf([1]);
    const optimizer = new AdamW(
      new Map([
        ["a", a],
        ["b", b],
      ]),
      { lr: 0.1 },
    );
    setGradient(a, [1]);
    optimizer.step();
    expect(b.item()).toBe(1);
    expect(optimizer.stateDict().numbers).toEqual({ "lr.0": 0.1, "step.a": 1 });
  });

  test("groups have settings of their own", () => {
    const a = parameterOf([1]);
    const b = parameterOf([1]);
    const groups = [
      { parameters: new Map([["a", a]]), lr: 0.2 },
      { parameters: new Map([["b", b]]), weightDecay: 1 },
    ];
    const optimizer = new AdamW(groups, { lr: 0.1, weightDecay: 0 });
    setGradient(a, [1]);
    setGradient(b, [1]);
    optimizer.step();
    expectClose(a, [0.8]);
    expectClose(b, [0.8]);
  });

  test("zeroGrad drops the gradients", () => {
    const w = parameterOf([1]);
    setGradient(w, [1]);
    new AdamW(new Map([["w", w]]), { lr: 0.1 }).zeroGrad();
    expect(w.grad).toBe(null);
  });
});

describe("master weights", () => {
  test("updates below the rounding of bfloat16 add up", () => {
    const plain = parameterOf([1], "bfloat16");
    const mastered = parameterOf([1], "bfloat16");
    const settings = { lr: 1e-4, weightDecay: 0 };
    const optimizers = [
      new AdamW(new Map([["w", plain]]), settings),
      new AdamW(new Map([["w", mastered]]), { ...settings, masterWeights: true }),
    ];
    for (let step = 0; step < 100; step++) {
      for (const w of [plain, mastered]) setGradient(w, [1]);
      for (const optimizer of optimizers) optimizer.step();
    }
    // Neighbors of 1 in bfloat16 are 2^-8 below and 2^-7 above: 1e-4 is lost, 100 of them are 0.01.
    expect(plain.item()).toBe(1);
    expect(mastered.item()).toBeCloseTo(0.99, 2);
    expect(mastered.item()).toBeLessThan(1);
    expect(optimizers[1]!.stateDict().tensors.get("master.w")!.item()).toBeCloseTo(0.99, 5);
  });

  test("float32 parameters have none", () => {
    const w = parameterOf([1]);
    const optimizer = new AdamW(new Map([["w", w]]), { lr: 0.1, masterWeights: true });
    setGradient(w, [1]);
    optimizer.step();
    expect([...optimizer.stateDict().tensors.keys()]).toEqual(["firstMoment.w", "secondMoment.w"]);
  });
});

describe("state", () => {
  const settings = { lr: 0.1, masterWeights: true };

  function trained(steps: number) {
    const w = parameterOf([1, -1], "bfloat16");
    const optimizer = new AdamW(new Map([["w", w]]), settings);
    const take = (count: number) => {
      for (let step = 0; step < count; step++) {
        setGradient(w, [step + 1, 0.5]);
        optimizer.step();
      }
    };
    take(steps);
    return { w, optimizer, take };
  }

  test("a loaded optimizer continues like the one that was saved", () => {
    const saved = trained(3);
    saved.optimizer.groups[0]!.lr = 0.05;
    const resumed = trained(0);
    noGrad(() => resumed.w.copy_(saved.w));
    resumed.optimizer.loadStateDict(saved.optimizer.stateDict());
    saved.take(2);
    resumed.take(2);
    expect(resumed.w.toArray()).toEqual(saved.w.toArray());
    const states = [saved, resumed].map(({ optimizer }) => optimizer.stateDict());
    expect(states[1]!.numbers).toEqual({ "lr.0": 0.05, "step.w": 5 });
    for (const [key, value] of states[0]!.tensors)
      expect(states[1]!.tensors.get(key)!.toArray()).toEqual(value.toArray());
  });

  test("loading copies: the saved tensors may change afterwards", () => {
    const { optimizer } = trained(1);
    const state = optimizer.stateDict();
    const copies = new Map([...state.tensors].map(([key, value]) => [key, value.clone()]));
    const resumed = trained(0);
    resumed.optimizer.loadStateDict({ tensors: copies, numbers: state.numbers });
    copies.get("firstMoment.w")!.zero_();
    expect(resumed.optimizer.stateDict().tensors.get("firstMoment.w")!.toArray()).toEqual(
      state.tensors.get("firstMoment.w")!.toArray(),
    );
  });

  test("a state that does not fit is refused and changes nothing", () => {
    const { optimizer } = trained(1);
    const { tensors, numbers } = optimizer.stateDict();
    const load = (tensorsToLoad: typeof tensors, numbersToLoad = numbers) =>
      optimizer.loadStateDict({ tensors: tensorsToLoad, numbers: numbersToLoad });
    expect(() => load(new Map([["firstMoment.other", tensor([1])]]))).toThrow(
      /has "firstMoment.other", which does not fit/,
    );
    expect(() => load(new Map([["firstMoment.w", tensor([1])]]))).toThrow(
      /of shape \[1\], but the parameter has \[2\]/,
    );
    expect(() => load(new Map())).toThrow(/has no "firstMoment.w"/);
    expect(() => load(tensors, { ...numbers, "lr.1": 1 })).toThrow(/has 2 parameter groups, the optimizer has 1/);
    expect(optimizer.stateDict().numbers["step.w"]).toBe(1);
  });

  test("masters are refused where masterWeights is off", () => {
    const { optimizer } = trained(1);
    const plain = new AdamW(new Map([["w", parameterOf([1, 2], "bfloat16")]]), { lr: 0.1 });
    expect(() => plain.loadStateDict(optimizer.stateDict())).toThrow(/has "master.w", which does not fit/);
  });
});

test("settings out of range are named", () => {
  const parameters = new Map([["w", parameterOf([1])]]);
  expect(() => new AdamW(parameters, { lr: -1 })).toThrow("lr must be at least 0 and finite: got -1.");
  expect(() => new AdamW(parameters, { lr: Number.NaN })).toThrow("lr must be at least 0 and finite: got NaN.");
  expect(() => new AdamW(parameters, { lr: 1, betas: [0.9, 1] })).toThrow(
    "betas must be at least 0 and below 1: got 1.",
  );
});

test("a training loop with a scope per step leaves live bytes flat", () => {
  const generator = new Generator(0);
  const mlp = new MLP({ widths: [8, 32, 4], activation: "tanh", generator }).to({ dtype: "bfloat16" });
  const optimizer = new AdamW(mlp.namedParameters(), { lr: 1e-3, masterWeights: true });
  const x = randn([16, 8], { generator, dtype: "bfloat16" });
  const step = () =>
    tensorScope(() => {
      const loss = mlp.forward(x).square().mean();
      loss.backward();
      clipGradNorm(mlp.parameters(), 1);
      optimizer.step();
      optimizer.zeroGrad();
      return loss.item();
    });
  const first = step();
  const { liveBytes, liveTensors } = native.memoryStats();
  let last = first;
  for (let i = 0; i < 50; i++) last = step();
  const after = native.memoryStats();
  expect(after.liveBytes).toBe(liveBytes);
  expect(after.liveTensors).toBe(liveTensors);
  expect(last).toBeLessThan(first);
});

test("dispose frees the state", () => {
  const w = new Parameter(tensor(new Float32Array(1000), [1000]));
  w.grad = tensor(new Float32Array(1000), [1000]);
  const optimizer = new AdamW(new Map([["w", w]]), { lr: 0.1 });
  const before = native.memoryStats().liveBytes;
  optimizer.step();
  expect(native.memoryStats().liveBytes).toBeGreaterThanOrEqual(before + 8000);
  optimizer.dispose();
  expect(native.memoryStats().liveBytes).toBe(before);
});

import { expect, test } from "vitest";
import { noGrad } from "./autograd.ts";
import { ones, tensor } from "./create.ts";
import { memoryStats, resetPeakMemory } from "./memory.ts";
import { isRepeating, recompute } from "./recompute.ts";
import { tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";

function parameter(...values: number[]): Tensor {
  const made = tensor(values);
  made.requiresGrad = true;
  return made;
}

test("recomputing gives the value and the gradients of what it runs: w x^2 with w = 4 at x = 3", () => {
  const x = parameter(3);
  const w = parameter(4);
  const y = recompute((value) => value.mul(value).mul(w), x, [w]);
  y.backward();
  expect([y.item(), x.grad?.item(), w.grad?.item()]).toEqual([36, 24, 9]);
});

test("a parameter that the run does not use gets no gradient", () => {
  const x = parameter(3);
  const unused = parameter(1);
  recompute((value) => value.mul(2), x, [unused]).backward();
  expect([x.grad?.item(), unused.grad]).toEqual([2, null]);
});

test("the run is made once forward and once more backward", () => {
  let runs = 0;
  const x = parameter(2);
  const y = recompute(
    (value) => {
      runs++;
      return value.exp();
    },
    x,
    [],
  );
  expect(runs).toBe(1);
  y.backward();
  expect(runs).toBe(2);
  expect(x.grad?.item()).toBeCloseTo(Math.exp(2), 5);
});

test("intermediates are not kept between forward and backward: ten of 4 MB are not there", () => {
  const x = ones([1_000_000]);
  x.requiresGrad = true;
  const run = (value: Tensor) => {
    let out = value;
    for (let i = 0; i < 10; i++) out = out.sin();
    return out;
  };
  const heldBy = (forward: () => Tensor) => {
    const before = memoryStats().liveBytes;
    return tensorScope(() => {
      const out = tensorScope(forward);
      expect(out.numel).toBe(1_000_000);
      return memoryStats().liveBytes - before;
    });
  };
  resetPeakMemory();
  expect(heldBy(() => run(x))).toBeGreaterThan(39e6);
  expect(heldBy(() => recompute(run, x, []))).toBeLessThan(9e6);
});

test("without recording, to recompute is to run", () => {
  const y = noGrad(() => recompute((value) => value.mul(2), parameter(3), []));
  expect([y.item(), y.requiresGrad]).toEqual([6, false]);
});

test("an error in the second run travels unchanged", () => {
  const thrown = new Error("second run");
  let runs = 0;
  const y = recompute(
    (value) => {
      if (++runs === 2) throw thrown;
      return value.mul(2);
    },
    parameter(1),
    [],
  );
  expect(() => y.backward()).toThrow(thrown);
});

test("a run knows whether it is made again", () => {
  const seen: boolean[] = [];
  const x = parameter(2);
  const y = recompute(
    (value) => {
      seen.push(isRepeating());
      return value.exp();
    },
    x,
    [],
  );
  y.backward();
  expect([...seen, isRepeating()]).toEqual([false, true, false]);
});

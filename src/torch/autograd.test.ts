import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import {
  applyFunction,
  backward,
  type CustomFunction,
  enableGrad,
  gradients,
  inferenceMode,
  isGradEnabled,
  noGrad,
} from "./autograd.ts";
import { native } from "./binding.ts";
import { ones, tensor } from "./create.ts";
import { memoryStats } from "./memory.ts";
import { recompute } from "./recompute.ts";
import { tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function parameter(...values: number[]): Tensor {
  const made = tensor(values);
  made.requiresGrad = true;
  return made;
}

/** x times x, with a backward of its own: the gradient is 2 x. */
const square: CustomFunction = {
  forward: ([x]) => ({ outputs: [x!.mul(x!)], saved: [x!] }),
  backward: ([gradOut], [x]) => [gradOut!.mul(x!).mul(2)],
};

/** One output, the input plus one; `run` decides the gradient. */
function plusOne(run: CustomFunction["backward"]): CustomFunction {
  return { forward: ([x]) => ({ outputs: [x!.add(1)], saved: [] }), backward: run };
}

test("backward adds up: the gradient of x^2 at 3 is 6, and 12 after a second pass", () => {
  const x = parameter(3);
  x.mul(x).backward();
  expect(x.grad?.toArray()).toEqual([6]);
  x.mul(x).backward();
  expect(x.grad?.toArray()).toEqual([12]);
  x.grad = null;
  expect(x.grad).toBeNull();
});

test("a tensor with several values needs the gradient that comes from above", () => {
  const x = parameter(1, 2);
  expect(() => x.mul(3).backward()).toThrow(/grad can be implicitly created only for scalar outputs/);
  x.mul(3).backward(tensor([10, 100]));
  expect(x.grad?.toArray()).toEqual([30, 300]);
});

test("several tensors go back in one pass, null standing for one", () => {
  const x = parameter(2);
  backward([x.mul(3), x.mul(5)], [null, tensor([10])]);
  expect(x.grad?.toArray()).toEqual([53]);
});

test("a graph is used up by backward, unless it is retained", () => {
  const x = parameter(3);
  const y = x.mul(x);
  y.backward(undefined, { retainGraph: true });
  y.backward();
  expect(x.grad?.toArray()).toEqual([12]);
  expect(() => y.backward()).toThrow(/backward: Trying to backward through the graph a second time/);
});

test("gradients touches no grad, and gives null for an input that was not used", () => {
  const x = parameter(2);
  const unused = parameter(1);
  const [dx, none] = gradients([x.pow(3)], [x, unused]);
  expect(dx?.toArray()).toEqual([12]);
  expect(none).toBeNull();
  expect(x.grad).toBeNull();
});

test("with createGraph gradients have gradients: x^3 at 2 has 12, 12 and 6", () => {
  const x = parameter(2);
  const [first] = gradients([x.pow(3)], [x], { createGraph: true });
  const [second] = gradients([first!], [x], { createGraph: true });
  const [third] = gradients([second!], [x]);
  expect([first?.item(), second?.item(), third?.item()]).toEqual([12, 12, 6]);
});

test("gradients weighs outputs by gradOutputs", () => {
  const x = parameter(1, 2);
  const [dx] = gradients([x.mul(x)], [x], { gradOutputs: [tensor([1, 10])] });
  expect(dx?.toArray()).toEqual([2, 40]);
});

test("gradients of nothing, for nothing and through nothing are errors", () => {
  const x = parameter(1);
  expect(() => gradients([x.mul(2)], [])).toThrow(/grad requires non-empty inputs/);
  expect(() => gradients([x.mul(2)], [tensor([1])])).toThrow(/does not require grad/);
  expect(() => gradients([tensor([1])], [x])).toThrow(/does not require grad/);
  expect(() => backward([x.mul(2)], [])).not.toThrow();
  expect(() => backward([x.mul(2)], [null, null])).toThrow(/got 1 tensors and 2 gradients/);
});

test("a gradient must have the shape and dtype of its tensor", () => {
  const x = parameter(1, 2);
  expect(() => {
    x.grad = tensor([1, 2, 3]);
  }).toThrow(/the gradient of float32\[2\] cannot be float32\[3\]/);
  expect(() => {
    x.grad = tensor([1, 2], { dtype: "float64" });
  }).toThrow(/cannot be float64\[2\]/);
  expect(() => {
    x.grad = x;
  }).toThrow(/a tensor cannot be its own gradient/);
  expect(() => x.mul(2).backward(tensor([1]))).toThrow(/invalid gradient at index 0 - got \[1\]/);
});

test("integers cannot require gradients, and a computed tensor cannot stop requiring them", () => {
  const counts = tensor([1], { dtype: "int64" });
  expect(() => {
    counts.requiresGrad = true;
  }).toThrow(/only Tensors of floating point and complex dtype can require gradients/i);
  const computed = parameter(1).mul(2);
  expect(computed.isLeaf).toBe(false);
  expect(() => {
    computed.requiresGrad = false;
  }).toThrow(/you can only change requires_grad flags of leaf variables/);
});

test("noGrad records nothing, enableGrad inside it does, and both end with their block", () => {
  const x = parameter(2);
  noGrad(() => {
    expect(x.mul(2).requiresGrad).toBe(false);
    expect(enableGrad(() => x.mul(2)).requiresGrad).toBe(true);
    expect(isGradEnabled()).toBe(false);
  });
  expect(isGradEnabled()).toBe(true);
  expect(() =>
    noGrad(() => {
      throw new Error("out");
    }),
  ).toThrow("out");
  expect(x.mul(2).requiresGrad).toBe(true);
});

test("inferenceMode records nothing, and its tensors take no part in a recorded computation", () => {
  const x = parameter(2);
  const made = inferenceMode(() => {
    expect(isGradEnabled()).toBe(false);
    return inferenceMode(() => x.mul(3));
  });
  expect(made.item()).toBe(6);
  expect(() => x.mul(made)).toThrow(/Inference tensors cannot be saved for backward/);
  expect(isGradEnabled()).toBe(true);
  expect(() =>
    inferenceMode(() => {
      throw new Error("out");
    }),
  ).toThrow("out");
  expect(x.mul(2).requiresGrad).toBe(true);
});

test("modes are for synchronous blocks: an async function would run on without them", () => {
  for (const mode of [noGrad, enableGrad, inferenceMode]) {
    expect(() => mode(async () => 1)).toThrow(/got a function that returns a promise. A scope is synchronous/);
  }
  expect(isGradEnabled()).toBe(true);
});

test("a custom function gives its own gradient: x^2 at 3 is 9 with 6", () => {
  const x = parameter(3);
  const [y] = applyFunction(square, [x]);
  expect(y?.item()).toBe(9);
  y?.backward();
  expect(x.grad?.toArray()).toEqual([6]);
});

test("a custom function of two inputs and two outputs gets null for the output that nothing depends on", () => {
  const a = parameter(3);
  const b = parameter(4);
  const seen: (number | null)[] = [];
  const productAndSum: CustomFunction = {
    forward: ([x, y]) => ({ outputs: [x!.mul(y!), x!.add(y!)], saved: [x!, y!] }),
    backward: ([gradProduct, gradSum], [x, y]) => {
      seen.push(gradProduct?.item() ?? null, gradSum?.item() ?? null);
      return [gradProduct!.mul(y!), gradProduct!.mul(x!)];
    },
  };
  const [product] = applyFunction(productAndSum, [a, b]);
  product?.mul(10).backward();
  expect(seen).toEqual([10, null]);
  expect([a.grad?.item(), b.grad?.item()]).toEqual([40, 30]);
});

test("a null gradient leaves an input without one", () => {
  const a = parameter(3);
  const b = parameter(4);
  const first: CustomFunction = {
    forward: ([x, y]) => ({ outputs: [x!.mul(y!)], saved: [y!] }),
    backward: ([gradOut], [y]) => [gradOut!.mul(y!), null],
  };
  applyFunction(first, [a, b])[0]?.backward();
  expect(a.grad?.item()).toBe(4);
  expect(b.grad).toBeNull();
});

test("saved tensors outlive the scope of the forward pass, and are freed with the graph", () => {
  const before = memoryStats();
  tensorScope(() => {
    const x = parameter(3);
    const loss = tensorScope(() => {
      const scaled = x.mul(2);
      return applyFunction(square, [scaled])[0]!;
    });
    loss.backward();
    expect(x.grad?.toArray()).toEqual([24]);
  });
  expect(memoryStats().liveBytes).toBe(before.liveBytes);
  expect(memoryStats().liveTensors).toBe(before.liveTensors);
});

test("what a backward makes besides its results is freed", () => {
  const x = parameter(3);
  const before = memoryStats().liveTensors;
  tensorScope(() => applyFunction(square, [x])[0]?.backward());
  expect(memoryStats().liveTensors).toBe(before);
});

test("an error in a backward travels unchanged, whatever was thrown", () => {
  for (const thrown of [new TypeError("mine"), "text", Symbol("s"), undefined, { toString: () => 1 / 0 }]) {
    const x = parameter(1);
    const [y] = applyFunction(
      plusOne(() => {
        throw thrown;
      }),
      [x],
    );
    let caught: unknown = "nothing";
    try {
      y?.backward();
    } catch (error) {
      caught = error;
    }
    expect(caught).toBe(thrown);
    expect(x.grad).toBeNull();
  }
});

test("a backward must return one gradient or null per input", () => {
  const x = parameter(1, 2);
  const run = (results: unknown) => {
    const [y] = applyFunction(
      plusOne(() => results as (Tensor | null)[]),
      [x],
    );
    y?.backward(ones([2]));
  };
  expect(() => run([])).toThrow(/must return one gradient \(or null\) per input: expected 1, got \[\]/);
  expect(() => run([null, null])).toThrow(/expected 1, got \[null, null\]/);
  expect(() => run([5])).toThrow(/expected 1, got \[5\]\. Return a list of tensors and nulls/);
  expect(() => run([undefined])).toThrow(/expected 1, got \[undefined\]/);
  expect(() => run(undefined)).toThrow(/expected 1, got undefined/);
  expect(() => run(null)).toThrow(/expected 1, got null/);
  expect(() => run(ones([2]))).toThrow(/expected 1, got a tensor/);
  expect(() => run({ x: null })).toThrow(/expected 1, got an object/);
  expect(() => run(Promise.resolve([null]))).toThrow(/applyFunction got a function that returns a promise/);
  expect(() => run([ones([3])])).toThrow(
    /returned an invalid gradient at index 0 - got \[3\] but expected shape compatible with \[2\]/,
  );
  const gone = ones([2]);
  gone.dispose();
  expect(() => run([gone])).toThrow(/argument 'gradient' is a disposed tensor/);
});

test("a gradient of another floating type is converted to the type of its input", () => {
  const x = parameter(1);
  applyFunction(
    plusOne(() => [tensor([2.5], { dtype: "float64" })]),
    [x],
  )[0]?.backward();
  expect([x.grad?.dtype, x.grad?.item()]).toEqual(["float32", 2.5]);
});

test("a custom function differentiates twice where its backward is made of operators: x^2 has 6 and 2", () => {
  const x = parameter(3);
  const [y] = applyFunction(square, [x]);
  const [first] = gradients([y!], [x], { createGraph: true });
  const [second] = gradients([first!], [x]);
  expect([first?.item(), second?.item()]).toEqual([6, 2]);
});

test("an output that is no float has no gradient, and does not shift those of the others", () => {
  const x = parameter(1, 5, 3);
  const largest: CustomFunction = {
    forward: ([values]) => {
      const index = values!.argmax(0);
      return { outputs: [index, values!.max()], saved: [index] };
    },
    backward: ([gradIndex, gradValue], [index]) => {
      expect(gradIndex).toBeNull();
      return [tensor([0, 0, 0]).scatter(0, index!.view(1), gradValue!.view(1))];
    },
  };
  const [index, value] = applyFunction(largest, [x]);
  expect([index?.item(), index?.requiresGrad, value?.item()]).toEqual([1, false, 5]);
  value?.mul(7).backward();
  expect(x.grad?.toArray()).toEqual([0, 7, 0]);
});

test("a custom function may return its input: the input stays a leaf", () => {
  const x = parameter(2);
  const passed: CustomFunction = {
    forward: ([value]) => ({ outputs: [value!], saved: [] }),
    backward: ([gradOut]) => [gradOut!.mul(100)],
  };
  const [y] = applyFunction(passed, [x]);
  y?.backward();
  expect(x.isLeaf).toBe(true);
  expect(x.grad?.item()).toBe(100);
});

test("without recording a custom function is its forward", () => {
  const x = parameter(3);
  const [y] = noGrad(() => applyFunction(square, [x]));
  expect([y?.item(), y?.requiresGrad]).toEqual([9, false]);
  expect(applyFunction(square, [tensor([3])])[0]?.requiresGrad).toBe(false);
});

test("an error in a forward travels unchanged and recording goes on", () => {
  const thrown = new Error("forward");
  const failing: CustomFunction = {
    forward: () => {
      throw thrown;
    },
    backward: () => [],
  };
  expect(() => applyFunction(failing, [parameter(1)])).toThrow(thrown);
  expect(isGradEnabled()).toBe(true);
});

test("a saved tensor that was changed in place is refused", () => {
  const x = parameter(3);
  const held = x.mul(1);
  const [y] = applyFunction(square, [held]);
  noGrad(() => held.add_(1));
  expect(() => y?.backward()).toThrow(/has been modified by an inplace operation/);
});

test("a custom function goes back twice only where its graph is retained", () => {
  const x = parameter(3);
  const [y] = applyFunction(square, [x]);
  y?.backward(undefined, { retainGraph: true });
  y?.backward();
  expect(x.grad?.toArray()).toEqual([12]);
  expect(() => y?.backward()).toThrow(/was released by an earlier backward. Pass retainGraph: true/);
});

test("a backward may run a backward: recomputed 4 x^2 with weight 4 at x = 3 gives 24 and 9", () => {
  const x = parameter(3);
  const weight = parameter(4);
  const y = recompute((value) => value.mul(value).mul(weight), x, [weight]);
  y.backward();
  expect([y.item(), x.grad?.item(), weight.grad?.item()]).toEqual([36, 24, 9]);
});

test("checkpoints inside checkpoints: ((2 x)^2)^2 = 16 x^4 has 64 at 1", () => {
  const x = parameter(1);
  const inner = (value: Tensor) => recompute((v) => v.mul(v), value, []);
  const y = recompute((value) => inner(inner(value.mul(2))), x, []);
  y.backward();
  expect([y.item(), x.grad?.item()]).toEqual([16, 64]);
});

test("a scope that a backward leaves open or closes too often does no harm", () => {
  const x = parameter(1);
  for (const meddle of [() => native.enterScope(), () => native.leaveScope([])]) {
    applyFunction(
      plusOne(() => {
        meddle();
        return [null];
      }),
      [x],
    )[0]?.backward();
  }
  expect(() => native.leaveScope([])).toThrow(/there is no scope to leave/);
});

test("the closure of a backward can be collected once its graph is gone", async () => {
  const held = (() => {
    const captured = { large: new Float64Array(1000) };
    const x = parameter(1);
    tensorScope(() => {
      const [y] = applyFunction(
        plusOne(([gradOut]) => [gradOut!.mul(captured.large.length)]),
        [x],
      );
      y?.backward();
    });
    expect(x.grad?.item()).toBe(1000);
    return new WeakRef(captured);
  })();
  // Looking at a WeakRef keeps its target for the rest of the task, so it is looked at once, at the end.
  for (let round = 0; round < 5; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    ones([1]).dispose();
    collectGarbage();
  }
  expect(held.deref()).toBeUndefined();
});

test("a graph of sixty thousand custom functions is built and freed without a deep stack", () => {
  const x = parameter(0);
  tensorScope(() => {
    let y: Tensor = x;
    for (let i = 0; i < 60_000; i++)
      y = tensorScope(
        () =>
          applyFunction(
            plusOne(([gradOut]) => [gradOut!]),
            [y],
          )[0]!,
      );
    expect(y.item()).toBe(60_000);
  });
});

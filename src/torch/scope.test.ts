import { expect, test } from "vitest";
import { native } from "./binding.ts";
import { ones, tensor, zeros } from "./create.ts";
import { memoryStats } from "./memory.ts";
import { heldScope, keep, tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";

/** Live bytes and tensors that `run` leaves behind. */
function leftBehind(run: () => void): { bytes: number; tensors: number } {
  const before = memoryStats();
  run();
  const after = memoryStats();
  return { bytes: after.liveBytes - before.liveBytes, tensors: after.liveTensors - before.liveTensors };
}

test("a scope frees what it made, to the byte", () => {
  expect(leftBehind(() => tensorScope(() => void ones([1000]).add(1).mul(2)))).toEqual({ bytes: 0, tensors: 0 });
});

test("scopes that are held overlap: each frees what it made when it ends, and not what was kept", () => {
  const made: Tensor[] = [];
  const left = leftBehind(() => {
    const [first, second] = [1, 2].map((value) =>
      tensorScope(() =>
        heldScope(() => {
          const start = tensor([value, value]);
          made.push(start, keep(start.mul(3)));
          return start.add(1);
        }),
      ),
    );
    first!.end();
    expect(made.map(({ isDisposed }) => isDisposed)).toEqual([true, false, false, false]);
    expect(second!.result.toArray()).toEqual([3, 3]);
    second!.end();
    for (const one of made) one.dispose();
  });
  expect(left).toEqual({ bytes: 0, tensors: 0 });
});

test("a number that a scope returns outlives its tensors: the mean of 1, 2, 6 is 3", () => {
  expect(leftBehind(() => expect(tensorScope(() => tensor([1, 2, 6]).mean().item())).toBe(3))).toEqual({
    bytes: 0,
    tensors: 0,
  });
});

test("a returned tensor survives and everything else is freed", () => {
  let intermediate: Tensor | undefined;
  const result = tensorScope(() => {
    intermediate = tensor([1, 2]);
    return intermediate.mul(10);
  });
  expect(result.toArray()).toEqual([10, 20]);
  expect(intermediate?.isDisposed).toBe(true);
});

test("tensors are found in arrays, plain objects, maps and sets, at any depth", () => {
  const made = tensorScope(() => ({
    list: [ones([1]), [ones([2])]],
    object: { inner: ones([3]) },
    map: new Map([["key", ones([4])]]),
    set: new Set([ones([5])]),
    bare: Object.assign(Object.create(null), { value: ones([6]) }) as { value: Tensor },
    other: [null, undefined, 1, "text"],
  }));
  const [first, [second]] = made.list as [Tensor, [Tensor]];
  const [fifth] = made.set;
  const found = [first, second, made.object.inner, made.map.get("key"), fifth, made.bare.value];
  expect(found.map((item) => item?.shape)).toEqual([[1], [2], [3], [4], [5], [6]]);
});

test("a tensor inside a class instance is not found, and is freed", () => {
  class Holder {
    readonly inside = ones([1]);
  }
  expect(tensorScope(() => new Holder()).inside.isDisposed).toBe(true);
});

test("a value that holds itself is looked at once", () => {
  interface Circle {
    self?: Circle;
    inside: Tensor;
  }
  const made = tensorScope(() => {
    const circle: Circle = { inside: tensor([7]) };
    circle.self = circle;
    return circle;
  });
  expect(made.self?.inside.item()).toBe(7);
});

test("what an inner scope returns belongs to the outer scope", () => {
  let inner: Tensor | undefined;
  const left = leftBehind(() =>
    tensorScope(() => {
      inner = tensorScope(() => ones([2]).add(1));
      expect(inner.toArray()).toEqual([2, 2]);
    }),
  );
  expect(inner?.isDisposed).toBe(true);
  expect(left).toEqual({ bytes: 0, tensors: 0 });
});

test("a tensor passes through three scopes to the outside", () => {
  const result = tensorScope(() => tensorScope(() => tensorScope(() => tensor([5]))));
  expect(result.item()).toBe(5);
});

test("an inner scope leaves the tensors of the outer scope alone", () => {
  tensorScope(() => {
    const outer = ones([1]);
    tensorScope(() => outer.add(1));
    expect(outer.item()).toBe(1);
  });
});

test("returning a tensor from outside changes nothing about it", () => {
  const outside = ones([1]);
  for (let i = 0; i < 3; i++) expect(tensorScope(() => outside.add_(1))).toBe(outside);
  expect(outside.item()).toBe(4);
});

test("kept tensors survive every scope, and their owner frees them", () => {
  let kept: Tensor | undefined;
  tensorScope(() => {
    tensorScope(() => {
      kept = keep(tensor([1, 2, 3]));
    });
  });
  expect(kept?.toArray()).toEqual([1, 2, 3]);
  kept?.dispose();
  expect(kept?.isDisposed).toBe(true);
});

test("keep finds tensors in structures and gives back what it got", () => {
  const state = { moments: [tensor([1]), tensor([2])] };
  tensorScope(() => {
    expect(keep(state)).toBe(state);
    const made = keep({ inside: tensor([3]) });
    Object.assign(state, { made });
  });
  expect((state as unknown as { made: { inside: Tensor } }).made.inside.item()).toBe(3);
});

test("an error inside frees everything and travels on unchanged", () => {
  const thrown = new Error("stop");
  const left = leftBehind(() => {
    expect(() =>
      tensorScope(() => {
        ones([100]);
        tensorScope(() => {
          ones([100]);
          throw thrown;
        });
      }),
    ).toThrow(thrown);
  });
  expect(left).toEqual({ bytes: 0, tensors: 0 });
});

test("an error of an operator inside frees everything", () => {
  const left = leftBehind(() => expect(() => tensorScope(() => ones([2, 3]).mm(ones([2, 3])))).toThrow(/aten::mm/));
  expect(left).toEqual({ bytes: 0, tensors: 0 });
});

test("an async function is refused, and what it made is freed", () => {
  let made: Tensor | undefined;
  const run = () =>
    tensorScope(async () => {
      made = ones([1]);
    });
  expect(run).toThrow(/tensorScope got a function that returns a promise/);
  expect(made?.isDisposed).toBe(true);
});

test("a disposed tensor may be returned: it stays disposed", () => {
  const result = tensorScope(() => {
    const gone = ones([1]);
    gone.dispose();
    return gone;
  });
  expect(result.isDisposed).toBe(true);
});

test("views keep the memory of a freed base, and give it back with themselves", () => {
  const left = leftBehind(() => {
    const row = tensorScope(() => zeros([64, 64]).add(3).select(0, 1));
    expect(row.sum().item()).toBe(192);
    row.dispose();
  });
  expect(left.bytes).toBeLessThan(1024);
});

test("leaving a scope that was not entered is an error", () => {
  expect(() => native.leaveScope([])).toThrow(/there is no scope to leave/);
});

test("a thousand scopes inside each other free everything", () => {
  const nest = (depth: number): number => tensorScope(() => (depth === 0 ? 0 : ones([1]).item() + nest(depth - 1)));
  expect(leftBehind(() => expect(nest(1000)).toBe(1000))).toEqual({ bytes: 0, tensors: 0 });
});

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { native } from "./binding.ts";
import { empty, ones, tensor, zeros } from "./create.ts";
import { memoryStats } from "./memory.ts";
import { op } from "./operator.ts";
import { keep, tensorScope } from "./scope.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Collects until `isDone`, or long enough to be sure that it will not be. Finalizers run between tasks. */
async function collectUntil(isDone: () => boolean): Promise<void> {
  for (let round = 0; round < 20 && !isDone(); round++) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("tensors that nothing refers to are released by the garbage collector", async () => {
  await collectUntil(() => false);
  const before = memoryStats();
  (() => {
    for (let i = 0; i < 100; i++) zeros([1000]);
  })();
  expect(memoryStats().liveTensors - before.liveTensors).toBe(100);
  await collectUntil(() => memoryStats().liveTensors === before.liveTensors);
  expect(memoryStats().liveTensors).toBe(before.liveTensors);
  expect(memoryStats().liveBytes).toBe(before.liveBytes);
});

test("tensors that are referred to are not collected", async () => {
  const held = tensor([1, 2, 3]);
  await collectUntil(() => held.isDisposed);
  expect(held.toArray()).toEqual([1, 2, 3]);
});

test("what a scope returns and what was kept is collected once nothing refers to it", async () => {
  await collectUntil(() => false);
  const before = memoryStats().liveTensors;
  (() => {
    tensorScope(() => ({ returned: ones([10]) }));
    tensorScope(() => void keep(ones([10])));
  })();
  expect(memoryStats().liveTensors).toBe(before + 2);
  await collectUntil(() => memoryStats().liveTensors === before);
  expect(memoryStats().liveTensors).toBe(before);
});

test("the collector runs on its own when garbage outside scopes holds much memory: 4 GB made, under 1 GB live", async () => {
  const before = memoryStats().liveBytes;
  let peakBytes = 0;
  for (let i = 0; i < 400; i++) {
    empty([2_500_000]);
    peakBytes = Math.max(peakBytes, memoryStats().liveBytes - before);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(peakBytes).toBeLessThan(1e9);
});

test("a tensor is left to the collector once, however many scopes it leaves", () => {
  const parameter = zeros([2]);
  expect(native.track(parameter.handle)).toBe(false);
  for (let step = 0; step < 1000; step++) tensorScope(() => keep(parameter.add_(1)));
  expect(parameter.toArray()).toEqual([1000, 1000]);
  tensorScope(() => expect(native.track(ones([1]).handle)).toBe(true));
});

test("sparse tensors, which do not say what they hold, live outside scopes too", () => {
  const sparse = op("aten::to_sparse")(tensor([0, 3]));
  expect(op("aten::_values")(sparse).toArray()).toEqual([3]);
});

test("disposing twice does nothing, using a disposed tensor says what happened", () => {
  const gone = tensor([1]);
  gone.dispose();
  gone.dispose();
  expect(gone.isDisposed).toBe(true);
  expect(String(gone)).toBe("Tensor(disposed)");
  const uses: readonly (() => unknown)[] = [
    () => gone.shape,
    () => gone.dtype,
    () => gone.device,
    () => gone.numel,
    () => gone.strides,
    () => gone.item(),
    () => gone.toArray(),
    () => gone.add(1),
    () => gone.backward(),
    () => gone.grad,
    () => gone.requiresGrad,
    () => gone.writeFrom(new Float32Array(1)),
  ];
  for (const use of uses)
    expect(use).toThrow(/is a disposed tensor. It was released by dispose\(\) or by the end of the scope/);
});

test("a handle is never given out twice, so a stale tensor is never another one", () => {
  const handles = new Set<number>();
  tensorScope(() => {
    for (let i = 0; i < 10_000; i++) {
      const one = ones([1]);
      handles.add(one.handle);
      one.dispose();
    }
  });
  expect(handles.size).toBe(10_000);
});

test("disposing one of two tensors over the same memory leaves the other", () => {
  const base = tensor([1, 2, 3, 4]);
  const half = base.narrow(0, 2, 2);
  base.dispose();
  expect(half.toArray()).toEqual([3, 4]);
});

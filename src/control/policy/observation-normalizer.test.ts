import fc from "fast-check";
import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import { ObservationNormalizer } from "./observation-normalizer.ts";

function ticksOf(rows: readonly number[], numEnvs = 1) {
  return { numTicks: rows.length / numEnvs, numEnvs, observations_TNO: Float32Array.from(rows) };
}

test("before the first update observations pass within the bounds", () => {
  const normalizer = new ObservationNormalizer(2);
  expect(normalizer.forward(tensor([[3, -25]])).toArray()).toEqual([3, -10]);
});

test("two updates equal one over all observations", () => {
  const normalizer = new ObservationNormalizer(1);
  normalizer.update(ticksOf([1, 3]));
  normalizer.update(ticksOf([5, 7]));
  expect(normalizer.mean_O.item()).toBeCloseTo(4, 6);
  expect(normalizer.std_O.item()).toBeCloseTo(Math.sqrt(5), 6);
  expect(normalizer.count.item()).toBe(4);
  expect(normalizer.forward(tensor([[4 + Math.sqrt(5)]])).item()).toBeCloseTo(1, 6);
});

test("any cut into updates gives the statistics of two passes over everything", () => {
  const numbers = fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: 2, maxLength: 60 });
  fc.assert(
    fc.property(numbers, fc.integer({ min: 1, max: 59 }), fc.integer({ min: -5, max: 5 }), (values, cut, shift) => {
      const rows = values.map((value) => Math.fround(value + shift * 1000));
      const normalizer = new ObservationNormalizer(1);
      normalizer.update(ticksOf(rows.slice(0, cut)));
      normalizer.update(ticksOf(rows.slice(cut)));
      const mean = rows.reduce((sum, value) => sum + value, 0) / rows.length;
      const variance = rows.reduce((sum, value) => sum + (value - mean) ** 2, 0) / rows.length;
      const scale = Math.max(1, ...rows.map(Math.abs));
      expect(Math.abs(normalizer.mean_O.item() - mean)).toBeLessThan(1e-6 * scale);
      expect(Math.abs(normalizer.std_O.item() - Math.sqrt(variance + 1e-8))).toBeLessThan(1e-3 * scale ** 0.5);
      normalizer.dispose();
    }),
    { numRuns: 50 },
  );
});

test("with decay a tick weighs less the older it is, whether it came in this update or in an earlier one", () => {
  const whole = new ObservationNormalizer(1, { decay: 0.5 });
  whole.update(ticksOf([8, 0, 4, 0], 2));
  const cut = new ObservationNormalizer(1, { decay: 0.5 });
  cut.update(ticksOf([8, 0], 2));
  cut.update(ticksOf([4, 0], 2));
  // Weights 1/2, 1/2, 1, 1: mean (4 + 4) / 3, count 3, mean square (32 + 16) / 3.
  for (const normalizer of [whole, cut]) {
    expect(normalizer.count.item()).toBeCloseTo(3, 12);
    expect(normalizer.mean_O.item()).toBeCloseTo(8 / 3, 5);
    expect(normalizer.std_O.item()).toBeCloseTo(Math.sqrt(16 - 64 / 9), 5);
  }
});

test("a frozen normalizer learns nothing more", () => {
  const normalizer = new ObservationNormalizer(1);
  normalizer.update(ticksOf([1, 3]));
  normalizer.freeze();
  normalizer.update(ticksOf([100, 200]));
  expect(normalizer.mean_O.item()).toBe(2);
});

test("statistics are part of the state and load with it", () => {
  const [from, to] = [new ObservationNormalizer(2), new ObservationNormalizer(2)];
  from.update({ numTicks: 2, numEnvs: 1, observations_TNO: Float32Array.of(1, 10, 3, 30) });
  tensorScope(() => to.loadStateDict(from.stateDict()));
  expect(to.mean_O.toArray()).toEqual([2, 20]);
  expect(to.count.item()).toBe(2);
  expect(from.trainableParameters()).toEqual([]);
});

test("a rollout of another width is refused", () => {
  expect(() => new ObservationNormalizer(3).update(ticksOf([1, 2]))).toThrow(
    "2 ticks of 1 environments with 3 numbers",
  );
});

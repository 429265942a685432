import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { Parameter } from "../nn/module.ts";
import {
  applySchedule,
  constantRate,
  cosineDecay,
  linearDecay,
  linearWarmup,
  type Schedule,
  withWarmup,
} from "./schedule.ts";
import { SGD } from "./sgd.ts";

const at = (schedule: Schedule, steps: readonly number[]) => steps.map((step) => Number(schedule(step).toFixed(6)));

test("a constant rate is one", () => {
  expect(at(constantRate(), [0, 7])).toEqual([1, 1]);
});

test("warm-up rises to one and stays", () => {
  expect(at(linearWarmup(4), [0, 1, 2, 3, 4, 9])).toEqual([0.25, 0.5, 0.75, 1, 1, 1]);
});

test("linear decay falls to its last factor and stays", () => {
  expect(at(linearDecay(4), [0, 1, 4, 5])).toEqual([1, 0.75, 0, 0]);
  expect(at(linearDecay(4, 0.2), [0, 2, 4])).toEqual([1, 0.6, 0.2]);
});

test("cosine decay is half way in the middle", () => {
  expect(at(cosineDecay(4, 0.2), [0, 1, 2, 4, 5])).toEqual([1, 0.882843, 0.6, 0.2, 0.2]);
});

test("after warm-up the other schedule counts from zero", () => {
  expect(at(withWarmup(2, linearDecay(4)), [0, 1, 2, 3, 6])).toEqual([0.5, 1, 1, 0.75, 0]);
  expect(at(withWarmup(0, linearDecay(4)), [0, 1])).toEqual([1, 0.75]);
});

test("a schedule scales the base rate of every group", () => {
  const groups = [0.1, 0.2].map((lr, i) => ({ parameters: new Map([[String(i), new Parameter(tensor([1]))]]), lr }));
  const optimizer = new SGD(groups, { lr: 1 });
  applySchedule(optimizer, 0.5);
  applySchedule(optimizer, 0.25);
  expect(optimizer.groups.map((group) => group.lr)).toEqual([0.025, 0.05]);
});

test("steps must be whole numbers", () => {
  expect(() => linearDecay(0)).toThrow("linearDecay needs a whole number of steps, at least 1: got 0.");
  expect(() => linearWarmup(1.5)).toThrow("warm-up needs a whole number of steps, at least 0: got 1.5.");
});

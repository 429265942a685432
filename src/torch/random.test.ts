import { expect, test } from "vitest";
import { ones, rand, randn, tensor, zeros } from "./create.ts";
import { defaultGeneratorState, Generator, manualSeed, setDefaultGeneratorState } from "./random.ts";

const draw = (generator?: Generator) => rand([3], generator === undefined ? {} : { generator }).toArray();

test("the same seed gives the same numbers, another seed others", () => {
  manualSeed(7);
  const first = draw();
  const second = draw();
  manualSeed(7);
  expect(draw()).toEqual(first);
  expect(draw()).toEqual(second);
  manualSeed(8);
  expect(draw()).not.toEqual(first);
});

test("seed 0 gives the numbers that PyTorch gives: 0.4963, 0.7682, 0.0885", () => {
  manualSeed(0);
  expect(draw().map((value) => value.toFixed(4))).toEqual(["0.4963", "0.7682", "0.0885"]);
});

test("generators are streams of their own", () => {
  const one = new Generator(1);
  const two = new Generator(1);
  const first = draw(one);
  draw(one);
  expect(draw(two)).toEqual(first);
  manualSeed(1);
  expect(draw()).toEqual(first);
});

test("a generator starts again from a seed", () => {
  const generator = new Generator(5);
  const first = draw(generator);
  generator.seed(5);
  expect(draw(generator)).toEqual(first);
});

test("a saved state continues where it was, also within a normal pair", () => {
  const generator = new Generator(3);
  randn([3], { generator });
  const state = generator.state();
  const next = randn([5], { generator }).toArray();
  generator.setState(state);
  expect(randn([5], { generator }).toArray()).toEqual(next);
  const other = new Generator(99);
  other.setState(state);
  expect(randn([5], { generator: other }).toArray()).toEqual(next);
});

test("the state of the process's own generator is saved and restored", () => {
  manualSeed(4);
  const state = defaultGeneratorState();
  const next = draw();
  draw();
  setDefaultGeneratorState(state);
  expect(draw()).toEqual(next);
});

test("negative seeds are seeds, seeds that are no integers are refused", () => {
  expect(draw(new Generator(-1))).toEqual(draw(new Generator(-1)));
  for (const seed of [0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60]) {
    expect(() => manualSeed(seed)).toThrow(/argument 'seed' must be an integer/);
    expect(() => new Generator(seed)).toThrow(/argument 'seed' must be an integer/);
  }
});

test("a state that is none is refused, and the generator goes on", () => {
  const generator = new Generator(1);
  const expected = draw(new Generator(1));
  expect(() => generator.setState(zeros([3]))).toThrow(/RNG state must be a torch.ByteTensor/);
  expect(() => generator.setState(zeros([3], { dtype: "uint8" }))).toThrow(/setGeneratorState/);
  const broken = generator.state().fill_(255);
  expect(() => generator.setState(broken)).toThrow(/Invalid mt19937 state/);
  expect(draw(generator)).toEqual(expected);
});

test("a device without generators is refused", () => {
  expect(() => new Generator(1, "meta")).toThrow(/no generator for device meta/);
  expect(() => new Generator(1, "nowhere")).toThrow(/createGenerator/);
  expect(() => defaultGeneratorState("meta")).toThrow(/generatorState/);
});

test("a disposed generator is refused, a tensor is no generator", () => {
  const generator = new Generator(1);
  generator.dispose();
  generator.dispose();
  expect(() => draw(generator)).toThrow(/this Generator was disposed/);
  expect(() => generator.seed(1)).toThrow(/this Generator was disposed/);
  expect(() => draw(ones([1]) as unknown as Generator)).toThrow(/expected a Generator, got a Tensor/);
  expect(tensor([1]).item()).toBe(1);
});

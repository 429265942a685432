import { describe, expect, test } from "vitest";
import { tensor } from "../create.ts";
import { Generator } from "../random.ts";
import { type ActivationName, activationOf } from "./activation.ts";
import { initialize } from "./initialize.ts";
import { MLP } from "./mlp.ts";

const generator = new Generator(0);
const simple = { generator, initialWeight: initialize.ones, initialBias: initialize.zeros };

test("an mlp activates between layers and not after the last", () => {
  const mlp = new MLP({ ...simple, widths: [2, 2, 1], activation: "relu" });
  // Hidden: 1 - 3 = -2 becomes 0, twice; the bias of the output is 0.
  expect(mlp.forward(tensor([[1, -3]])).toArray()).toEqual([0]);
  // Hidden: 3, twice; output 6.
  expect(mlp.forward(tensor([[1, 2]])).toArray()).toEqual([6]);
});

test("an mlp activates its output when told to", () => {
  const mlp = new MLP({ ...simple, widths: [1, 1], activation: "relu", outputActivation: "tanh" });
  expect(mlp.forward(tensor([[0.5]])).item()).toBeCloseTo(Math.tanh(0.5), 6);
});

test("the weight of the last layer has an initializer of its own", () => {
  const mlp = new MLP({ ...simple, widths: [2, 2, 2], activation: "tanh", initialOutputWeight: initialize.zeros });
  expect(mlp.layers.map((layer) => layer.weight.toArray())).toEqual([
    [1, 1, 1, 1],
    [0, 0, 0, 0],
  ]);
  expect([...mlp.namedParameters().keys()]).toEqual([
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "layers.1.bias",
  ]);
});

describe("activations at -1", () => {
  const values: Record<ActivationName, number> = {
    relu: 0,
    tanh: -0.761594,
    elu: Math.exp(-1) - 1,
    gelu: -0.158655,
    silu: -0.268941,
  };
  test.each(Object.entries(values))("%s is %d", (name, value) => {
    expect(activationOf(name as ActivationName)(tensor([-1])).item()).toBeCloseTo(value, 5);
  });
});

test("an unknown activation lists the known ones", () => {
  expect(() => new MLP({ ...simple, widths: [1, 1], activation: "swish" as ActivationName })).toThrow(
    'activation "swish" is not known. Choose one of relu, tanh, elu, gelu, silu.',
  );
});

test("an mlp needs the sizes of input and output", () => {
  expect(() => new MLP({ ...simple, widths: [4], activation: "relu" })).toThrow(
    /widths must be two or more.*got \[4\]/,
  );
});

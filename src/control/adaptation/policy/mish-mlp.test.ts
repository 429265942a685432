import { expect, test } from "vitest";
import { tensor } from "../../../torch/create.ts";
import { Generator } from "../../../torch/random.ts";
import { MishMLP, MishTrunk } from "./mish-mlp.ts";

test("a hidden layer is linear, then normalized, then Mish", () => {
  const trunk = new MishTrunk(2, [2], { generator: new Generator(0) });
  trunk.layers[0]!.loadStateDict(
    new Map([
      [
        "weight",
        tensor([
          [1, 0],
          [0, 1],
        ]),
      ],
      ["bias", tensor([0, 0])],
    ]),
  );
  // Mean 3 and deviation 2: normalized to -1 and 1.
  const mish = (x: number) => x * Math.tanh(Math.log1p(Math.exp(x)));
  const [low, high] = trunk.forward(tensor([[1, 5]])).toArray();
  expect(low).toBeCloseTo(mish(-1), 4);
  expect(high).toBeCloseTo(mish(1), 4);
});

test("the output starts with orthogonal rows of length gain and bias 0", () => {
  const network = new MishMLP({
    inputSize: 3,
    hidden: [8],
    outputSize: 2,
    outputGain: 0.01,
    generator: new Generator(1),
  });
  const products = network.head.weight.detach();
  const gram = products.mul(100).t();
  const values = [0, 1].flatMap((i) => [0, 1].map((j) => gram.select(1, i).mul(gram.select(1, j)).sum().item()));
  expect(values.map((value) => Math.round(value * 1e5) / 1e5 + 0)).toEqual([1, 0, 0, 1]);
  expect(network.head.bias!.toArray()).toEqual([0, 0]);
});

/** One seed gives the first values that PyTorch gives for it. Fixtures: fixtures/nn/README.md. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Embedding } from "../../src/torch/nn/embedding.ts";
import { GRU } from "../../src/torch/nn/gru.ts";
import { type Initializer, initialize } from "../../src/torch/nn/initialize.ts";
import { Linear } from "../../src/torch/nn/linear.ts";
import { LSTM } from "../../src/torch/nn/lstm.ts";
import { Generator } from "../../src/torch/random.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

interface Dump {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../fixtures/nn/${name}.json`, import.meta.url), "utf8")) as T;
}

function relativeError(got: Tensor, { values }: Dump): number {
  const numbers = got.toArray();
  const largest = Math.max(...values.map(Math.abs));
  return Math.max(...values.map((value, i) => Math.abs(value - numbers[i]!))) / largest;
}

test("layers start with PyTorch's defaults", () => {
  const dumps = read<Record<string, Record<string, Dump>>>("default-layers");
  const generator = new Generator(11);
  const layers = {
    linear: new Linear(5, 3, { generator }),
    embedding: new Embedding(6, 4, { generator }),
    lstm: new LSTM({ inputSize: 3, hiddenSize: 2, numLayers: 2, generator }),
    gru: new GRU({ inputSize: 2, hiddenSize: 3, generator }),
  };
  for (const [name, layer] of Object.entries(layers)) {
    const parameters = layer.namedParameters();
    expect([...parameters.keys()]).toEqual(Object.keys(dumps[name]!));
    for (const [path, parameter] of parameters)
      expect(relativeError(parameter, dumps[name]![path]!)).toBeLessThan(1e-7);
  }
});

describe("initializers equal torch.nn.init", () => {
  const dumps = read<Record<string, Dump[]>>("initializers");
  const cases: Record<string, { readonly initializer: Initializer; readonly tolerance: number }> = {
    xavierUniform: { initializer: initialize.xavierUniform(1.5), tolerance: 1e-7 },
    xavierNormal: { initializer: initialize.xavierNormal(1.5), tolerance: 1e-7 },
    kaimingUniform: { initializer: initialize.kaimingUniform(), tolerance: 1e-7 },
    kaimingNormal: { initializer: initialize.kaimingNormal(), tolerance: 1e-7 },
    truncatedNormal: { initializer: initialize.truncatedNormal(0.1, 0.02), tolerance: 1e-6 },
    // A QR factorization: the LAPACK that libtorch was linked with decides the last bits.
    orthogonal: { initializer: initialize.orthogonal(Math.SQRT2), tolerance: 2e-6 },
  };
  test.each(Object.entries(cases))("%s", (name, { initializer, tolerance }) => {
    for (const dump of dumps[name]!) {
      const values = initializer(dump.shape, { generator: new Generator(5) });
      expect(values.shape).toEqual(dump.shape);
      expect(relativeError(values, dump)).toBeLessThan(tolerance);
    }
  });
});

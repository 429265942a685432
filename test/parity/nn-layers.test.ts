/** Layers equal PyTorch, forward and backward. Fixtures: fixtures/nn/README.md. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { arange, tensor } from "../../src/torch/create.ts";
import { isCudaAvailable } from "../../src/torch/cuda.ts";
import type { Device } from "../../src/torch/dtype.ts";
import { GRU } from "../../src/torch/nn/gru.ts";
import { LayerNorm } from "../../src/torch/nn/layer-norm.ts";
import { LSTM } from "../../src/torch/nn/lstm.ts";
import type { Module } from "../../src/torch/nn/module.ts";
import { Generator } from "../../src/torch/random.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/**
 * Largest difference allowed, relative to the largest value of the tensor. Float32 has 1.2e-7 per rounding; cuDNN
 * multiplies in TF32, which has 1e-3.
 */
const tolerance = 1e-6;
const tf32Tolerance = 1e-3;

interface Dump {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

interface LayerDump {
  readonly numLayers: number;
  readonly hasBias: boolean;
  readonly parameters: Readonly<Record<string, Dump>>;
  readonly inputs: readonly Dump[];
  readonly outputs: readonly Dump[];
  readonly parameterGradients: Readonly<Record<string, Dump>>;
  readonly inputGradients: readonly Dump[];
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../fixtures/nn/${name}.json`, import.meta.url), "utf8")) as T;
}

function fromDump({ shape, values }: Dump, device: Device): Tensor {
  return tensor(Float32Array.from(values), shape, { device });
}

function expectEqual(got: Tensor | null, { shape, values }: Dump, bound: number): void {
  expect(got?.shape).toEqual(shape);
  const numbers = got!.toArray();
  const largest = Math.max(...values.map(Math.abs));
  const error = Math.max(...values.map((value, i) => Math.abs(value - numbers[i]!))) / largest;
  expect(error).toBeLessThan(bound);
}

/** Runs the layer on the dumped inputs with the dumped parameters, and compares outputs and all gradients. */
function compare(
  device: Device,
  module: Module,
  dump: LayerDump,
  run: (inputs: readonly Tensor[]) => readonly Tensor[],
): void {
  const bound = device === "cuda" && !(module instanceof LayerNorm) ? tf32Tolerance : tolerance;
  module.to({ device });
  module.loadStateDict(
    new Map(Object.entries(dump.parameters).map(([name, value]) => [name, fromDump(value, device)])),
  );
  const inputs = dump.inputs.map((input) => fromDump(input, device));
  for (const input of inputs) input.requiresGrad = true;
  const outputs = run(inputs);
  for (const [i, output] of outputs.entries()) expectEqual(output, dump.outputs[i]!, bound);
  const losses = outputs.map((output) => {
    const factors = arange(0, output.numel, { dtype: "float32", device })
      .cos()
      .view(...output.shape);
    return output.mul(factors).sum();
  });
  losses.reduce((sum, loss) => sum.add(loss)).backward();
  for (const [name, parameter] of module.namedParameters())
    expectEqual(parameter.grad, dump.parameterGradients[name]!, bound);
  for (const [i, input] of inputs.entries()) expectEqual(input.grad, dump.inputGradients[i]!, bound);
}

const generator = new Generator(0);

const devices: readonly Device[] = isCudaAvailable() ? ["cpu", "cuda"] : ["cpu"];

describe.each(devices)("layers on %s equal PyTorch", (device) => {
  test.each(read<LayerDump[]>("lstm"))("LSTM with $numLayers layers and bias $hasBias", (dump) => {
    const { numLayers, hasBias } = dump;
    const lstm = new LSTM({ inputSize: 3, hiddenSize: 4, numLayers, hasBias, generator });
    compare(device, lstm, dump, ([input_BTD, hidden_LBD, cell_LBD]) => {
      const { output_BTD, state } = lstm.forward(input_BTD!, { hidden_LBD: hidden_LBD!, cell_LBD: cell_LBD! });
      return [output_BTD, state.hidden_LBD, state.cell_LBD];
    });
  });

  test.each(read<LayerDump[]>("gru"))("GRU with $numLayers layers and bias $hasBias", (dump) => {
    const { numLayers, hasBias } = dump;
    const gru = new GRU({ inputSize: 3, hiddenSize: 4, numLayers, hasBias, generator });
    compare(device, gru, dump, ([input_BTD, hidden_LBD]) => {
      const { output_BTD, state } = gru.forward(input_BTD!, { hidden_LBD: hidden_LBD! });
      return [output_BTD, state.hidden_LBD];
    });
  });

  test("LayerNorm", () => {
    const layerNorm = new LayerNorm(6);
    compare(device, layerNorm, read<LayerDump>("layer-norm"), ([x]) => [layerNorm.forward(x!)]);
  });
});

import { describe, expect, test } from "vitest";
import { full, ones, randn, tensor } from "../create.ts";
import { Generator } from "../random.ts";
import type { Tensor } from "../tensor.ts";
import { GRU } from "./gru.ts";
import { initialize } from "./initialize.ts";
import { LSTM } from "./lstm.ts";
import { resetWhere } from "./reset-where.ts";

const generator = new Generator(0);
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

function expectClose(got: Tensor, expected: readonly number[]): void {
  const values = got.toArray();
  expect(values.length).toBe(expected.length);
  for (const [i, value] of values.entries()) expect(value).toBeCloseTo(expected[i]!, 6);
}

describe("LSTM", () => {
  test("one tick with all weights one", () => {
    const lstm = new LSTM({ inputSize: 1, hiddenSize: 1, hasBias: false, generator, initialWeight: initialize.ones });
    const state = { hidden_LBD: tensor([[[0.5]]]), cell_LBD: tensor([[[2]]]) };
    const { output_BTD, state: next } = lstm.forward(tensor([[[0.25]]]), state);
    // Every gate sees 0.25 + 0.5.
    const gate = sigmoid(0.75);
    const cell = gate * 2 + gate * Math.tanh(0.75);
    expectClose(next.cell_LBD, [cell]);
    expectClose(output_BTD, [gate * Math.tanh(cell)]);
    expectClose(next.hidden_LBD, output_BTD.toArray());
  });

  test("starts from zeros without a state", () => {
    const lstm = new LSTM({ inputSize: 2, hiddenSize: 3, numLayers: 2, generator });
    const input_BTD = randn([2, 4, 2], { generator });
    const zero = { hidden_LBD: full([2, 2, 3], 0), cell_LBD: full([2, 2, 3], 0) };
    expect(lstm.forward(input_BTD).output_BTD.toArray()).toEqual(lstm.forward(input_BTD, zero).output_BTD.toArray());
  });

  test("a sequence in two calls with the state carried equals one call", () => {
    const lstm = new LSTM({ inputSize: 2, hiddenSize: 3, generator });
    const input_BTD = randn([2, 4, 2], { generator });
    const whole = lstm.forward(input_BTD);
    const first = lstm.forward(input_BTD.narrow(1, 0, 1));
    const rest = lstm.forward(input_BTD.narrow(1, 1, 3), first.state);
    expectClose(rest.output_BTD, whole.output_BTD.narrow(1, 1, 3).toArray());
    expectClose(rest.state.cell_LBD, whole.state.cell_LBD.toArray());
  });

  test("a wrong input and a wrong state are named", () => {
    const lstm = new LSTM({ inputSize: 2, hiddenSize: 3, generator });
    expect(() => lstm.forward(ones([4, 2]))).toThrow(/LSTM got an input of shape \[4, 2\]. It must be \[B, T, 2\]/);
    const state = { hidden_LBD: ones([1, 5, 3]), cell_LBD: ones([1, 5, 3]) };
    expect(() => lstm.forward(ones([4, 1, 2]), state)).toThrow(
      /state.hidden has shape \[1, 5, 3\] but the input has 4 rows.*\[1, 4, 3\]/,
    );
  });
});

describe("GRU", () => {
  test("one tick with all weights one", () => {
    const gru = new GRU({ inputSize: 1, hiddenSize: 1, hasBias: false, generator, initialWeight: initialize.ones });
    const { output_BTD } = gru.forward(tensor([[[0.25]]]), { hidden_LBD: tensor([[[0.5]]]) });
    const gate = sigmoid(0.75);
    const fresh = Math.tanh(0.25 + gate * 0.5);
    expectClose(output_BTD, [(1 - gate) * fresh + gate * 0.5]);
  });

  test("parameters have PyTorch's names", () => {
    const gru = new GRU({ inputSize: 2, hiddenSize: 3, numLayers: 2, generator });
    expect([...gru.namedParameters()].map(([name, { shape }]) => [name, shape])).toEqual([
      ["weight_ih_l0", [9, 2]],
      ["weight_hh_l0", [9, 3]],
      ["bias_ih_l0", [9]],
      ["bias_hh_l0", [9]],
      ["weight_ih_l1", [9, 3]],
      ["weight_hh_l1", [9, 3]],
      ["bias_ih_l1", [9]],
      ["bias_hh_l1", [9]],
    ]);
  });
});

describe("resetWhere", () => {
  const isStart_B = tensor([0, 1], { dtype: "bool" });

  test("zeroes the rows that start, in every layer, and keeps the others", () => {
    const state = {
      hidden_LBD: tensor([
        [
          [1, 2],
          [3, 4],
        ],
        [
          [5, 6],
          [7, 8],
        ],
      ]),
      cell_LBD: tensor([
        [
          [1, 1],
          [Number.NaN, 1],
        ],
        [
          [1, 1],
          [1, 1],
        ],
      ]),
    };
    const reset = resetWhere(state, isStart_B);
    expect(reset.hidden_LBD.toArray()).toEqual([1, 2, 0, 0, 5, 6, 0, 0]);
    // NaN does not outlive its episode.
    expect(reset.cell_LBD.toArray()).toEqual([1, 1, 0, 0, 1, 1, 0, 0]);
  });

  test("stops gradients at the start of an episode", () => {
    const hidden_LBD = ones([1, 2, 1]);
    hidden_LBD.requiresGrad = true;
    resetWhere({ hidden_LBD }, isStart_B).hidden_LBD.sum().backward();
    expect(hidden_LBD.grad!.toArray()).toEqual([1, 0]);
  });

  test("a flag per row is needed", () => {
    expect(() => resetWhere({ hidden_LBD: ones([1, 3, 1]) }, isStart_B)).toThrow(
      /isStart is bool of shape \[2\] but the state has 3 rows/,
    );
    expect(() => resetWhere({ hidden_LBD: ones([1, 2, 1]) }, tensor([0, 1]))).toThrow(/isStart is float32/);
  });
});

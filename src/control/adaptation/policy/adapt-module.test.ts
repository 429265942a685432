import { expect, test } from "vitest";
import { noGrad } from "../../../torch/autograd.ts";
import { tensor, zeros } from "../../../torch/create.ts";
import { Generator } from "../../../torch/random.ts";
import { tensorScope } from "../../../torch/scope.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { type AdaptModule, type AdaptModuleKind, createAdaptModule } from "./adapt-module.ts";

const kinds: readonly [string, AdaptModuleKind][] = [
  ["an MLP over the present", { type: "mlp", history: 1 }],
  ["an MLP over three ticks", { type: "mlp", history: 3 }],
  ["a GRU", { type: "gru" }],
];

const build = (kind: AdaptModuleKind) =>
  createAdaptModule(kind, { inputSize: 2, latentSize: 4, outputGain: 1, generator: new Generator(3) });

/** Five ticks of two environments; the second one begins an episode at tick 2, the first at ticks 0 and 3. */
const inputs_TND = tensor(
  Float32Array.from({ length: 20 }, (_, i) => Math.sin(3 * i)),
  [5, 2, 2],
);
const isFirst_TN = tensor([
  [1, 0],
  [0, 0],
  [0, 1],
  [1, 0],
  [0, 0],
]).ne(0);

function carryOf({ carrySize }: AdaptModule): Tensor {
  return tensor(
    Float32Array.from({ length: 2 * carrySize }, (_, i) => Math.cos(i)),
    [2, carrySize],
  );
}

test.each(kinds)("%s gives the same latents tick by tick and in one sequence", (_, kind) => {
  tensorScope(() => {
    const adapt = build(kind);
    const whole = noGrad(() => adapt.forward({ inputs_TND, isFirst_TN, carry_NC: carryOf(adapt) }));
    let carry_NC = carryOf(adapt);
    const ticks: number[] = [];
    for (let t = 0; t < 5; t++) {
      const one = noGrad(() =>
        adapt.forward({
          inputs_TND: inputs_TND.slice(0, t, t + 1),
          isFirst_TN: isFirst_TN.slice(0, t, t + 1),
          carry_NC,
        }),
      );
      ticks.push(...one.latents_TNZ.toArray());
      carry_NC = one.carry_NC;
    }
    for (const [i, value] of whole.latents_TNZ.toArray().entries()) expect(ticks[i]).toBeCloseTo(value, 5);
    for (const [i, value] of whole.carry_NC.toArray().entries()) expect(carry_NC.toArray()[i]).toBeCloseTo(value, 5);
  });
});

test.each(kinds)("%s forgets at the start of an episode and only there", (_, kind) => {
  tensorScope(() => {
    const adapt = build(kind);
    const latentsFrom = (carry_NC: Tensor) =>
      noGrad(() => adapt.forward({ inputs_TND, isFirst_TN, carry_NC }).latents_TNZ.reshape(10, 4));
    const changed_B = latentsFrom(carryOf(adapt))
      .sub(latentsFrom(zeros([2, adapt.carrySize])))
      .abs()
      .amax(1)
      .gt(1e-6)
      .to("float32")
      .toArray();
    // Rows are [tick, env]. Only the second environment, and only before its start at tick 2, can know the carry.
    expect(changed_B).toEqual(
      kind.type === "mlp" && kind.history === 1 ? Array(10).fill(0) : [0, 1, 0, 1, 0, 0, 0, 0, 0, 0],
    );
  });
});

test("the carry of an MLP over three ticks is the last two inputs, oldest first, zeros before the episode", () => {
  tensorScope(() => {
    const adapt = build({ type: "mlp", history: 3 });
    const { carry_NC } = adapt.forward({
      inputs_TND: tensor([[[5, 6]], [[7, 8]]]),
      isFirst_TN: tensor([[0], [0]]).ne(0),
      carry_NC: tensor([[1, 2, 3, 4]]),
    });
    expect(carry_NC.toArray()).toEqual([5, 6, 7, 8]);
    const fresh = adapt.forward({
      inputs_TND: tensor([[[5, 6]]]),
      isFirst_TN: tensor([[1]]).ne(0),
      carry_NC: tensor([[1, 2, 3, 4]]),
    });
    expect(fresh.carry_NC.toArray()).toEqual([0, 0, 5, 6]);
  });
});

test("a carry of NaN does not outlive its episode", () => {
  tensorScope(() => {
    for (const [, kind] of kinds) {
      const adapt = build(kind);
      const { latents_TNZ } = adapt.forward({
        inputs_TND,
        isFirst_TN: isFirst_TN.logicalOr(tensor([[1], [0], [0], [0], [0]]).ne(0)),
        carry_NC: carryOf(adapt).mul(Number.NaN),
      });
      expect(latents_TNZ.isFinite().all().item()).toBe(1);
    }
  });
});

test("a history of no ticks is refused", () => {
  expect(() => build({ type: "mlp", history: 0 })).toThrow("history must be a whole number of ticks from 1 on: got 0.");
});

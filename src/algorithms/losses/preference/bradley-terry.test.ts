import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { readMetrics } from "../loss-metrics.ts";
import { bradleyTerryLoss } from "./bradley-terry.ts";

const rows = (...values: number[]) => tensor(values, { dtype: "float64" });
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

test("the loss is -log sigmoid of the difference, its gradient sigmoid(-difference)", () => {
  const chosenScores_B = rows(2);
  chosenScores_B.requiresGrad = true;
  const { loss_B, metrics } = bradleyTerryLoss({ chosenScores_B, rejectedScores_B: rows(-1) });
  expect(loss_B.item()).toBeCloseTo(-Math.log(sigmoid(3)), 12);
  expect(gradients([loss_B.sum()], [chosenScores_B])[0]!.item()).toBeCloseTo(-sigmoid(-3), 12);
  expect(readMetrics(metrics)).toMatchObject({
    "preference/accuracy": 1,
    "preference/margin": 3,
    "preference/score": 0.5,
  });
});

test("a margin asks for more, and centering keeps scores around 0", () => {
  const inputs = { chosenScores_B: rows(2), rejectedScores_B: rows(-1), margins_B: rows(1) };
  expect(bradleyTerryLoss(inputs, { centering: 0.01 }).loss_B.item()).toBeCloseTo(-Math.log(sigmoid(2)) + 0.01, 12);
});

test("a pair with a NaN score has loss 0 and gradient 0", () => {
  const chosenScores_B = rows(Number.NaN, 1);
  chosenScores_B.requiresGrad = true;
  const { loss_B } = bradleyTerryLoss({ chosenScores_B, rejectedScores_B: rows(0, 1) }, { centering: 0.1 });
  const gradient = gradients([loss_B.sum()], [chosenScores_B])[0]!.toArray();
  expect(loss_B.toArray()[0]).toBe(0);
  expect(gradient[0]).toBe(0);
  expect(gradient[1]).toBeCloseTo(-0.5 + 0.1 * 2 * 2, 12);
});

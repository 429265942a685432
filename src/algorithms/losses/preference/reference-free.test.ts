import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { readMetrics } from "../loss-metrics.ts";
import { orpoLoss } from "./orpo.ts";
import { scoreRegressionLoss } from "./score-regression.ts";
import { simpoLoss } from "./simpo.ts";

const rows = (...values: number[]) => tensor(values, { dtype: "float64" });
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

test("simpo asks the chosen reply to lead by a margin of reward", () => {
  const chosenLogprobs_B = rows(-1);
  chosenLogprobs_B.requiresGrad = true;
  const { loss_B, metrics } = simpoLoss({ chosenLogprobs_B, rejectedLogprobs_B: rows(-2) }, { beta: 2, margin: 0.5 });
  expect(loss_B.item()).toBeCloseTo(-Math.log(sigmoid(1.5)), 12);
  expect(gradients([loss_B.sum()], [chosenLogprobs_B])[0]!.item()).toBeCloseTo(-2 * sigmoid(-1.5), 12);
  expect(readMetrics(metrics)).toMatchObject({ "preference/margin": 2, "preference/chosen_reward": -2 });
});

test("orpo compares odds: 0.5 has odds of 1, 0.2 of a quarter", () => {
  const inputs = { chosenLogprobs_B: rows(Math.log(0.5)), rejectedLogprobs_B: rows(Math.log(0.2)) };
  const { loss_B, metrics } = orpoLoss(inputs, { beta: 0.1 });
  expect(loss_B.item()).toBeCloseTo(-0.1 * Math.log(sigmoid(Math.log(4))), 12);
  expect(readMetrics(metrics)["preference/log_odds"]).toBeCloseTo(Math.log(4), 12);
});

test("orpo leaves out a pair with a certain reply, whose odds are infinite, with gradient 0", () => {
  const chosenLogprobs_B = rows(0, -1);
  chosenLogprobs_B.requiresGrad = true;
  const { loss_B, metrics } = orpoLoss({ chosenLogprobs_B, rejectedLogprobs_B: rows(-1, -2) }, { beta: 1 });
  const gradient = gradients([loss_B.sum()], [chosenLogprobs_B])[0]!.toArray();
  expect(loss_B.toArray()[0]).toBeCloseTo(0, 12);
  expect(gradient[0]).toBe(0);
  expect(gradient[1]).toBeLessThan(0);
  expect(readMetrics(metrics)["preference/nonfinite_fraction"]).toBe(0.5);
});

test("regression squares the distance to the given score", () => {
  const scores_B = rows(2, Number.NaN);
  scores_B.requiresGrad = true;
  const { loss_B, metrics } = scoreRegressionLoss({ scores_B, targets_B: rows(5, 1) });
  expect(loss_B.toArray()).toEqual([9, 0]);
  expect(gradients([loss_B.sum()], [scores_B])[0]!.toArray()).toEqual([-6, 0]);
  expect(readMetrics(metrics)).toMatchObject({ "preference/score": 2, "preference/score_error": 3 });
});

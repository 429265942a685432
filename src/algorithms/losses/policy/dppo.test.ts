import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { readMetrics } from "../loss-metrics.ts";
import { dppoLoss } from "./dppo.ts";

const bounds = { divergenceLow: 0.1, divergenceHigh: 0.1, ratioHigh: 2 };
// A rare token may triple; a frequent one may not rise from 0.5 to 0.75.
const anchor = [[Math.log(0.01), Math.log(0.5), Math.log(0.5), Math.log(0.5)]];
const ratios = [[3, 1.5, 1.5, 0.5]];
const advantages = [[1, 1, -1, -1]];

test.each(["tv", "kl"] as const)(
  "%s drops tokens that moved too far in the direction of their advantage",
  (divergence) => {
    const inputs = exampleInputs({ ratios, advantages, anchor });
    const output = dppoLoss(inputs, { divergence, ...bounds });
    const { gradient } = lossesAndGradient(inputs, output);
    // Kept with the ratio cut at 2; dropped; kept; dropped.
    expect(gradient[0]).toBeCloseTo(-2, 12);
    expect(Math.abs(gradient[1]!)).toBe(0);
    expect(gradient[2]).toBeCloseTo(1.5, 12);
    expect(Math.abs(gradient[3]!)).toBe(0);
    const metrics = readMetrics(output.metrics);
    expect(metrics["policy/clip_fraction"]).toBe(0.5);
    expect(metrics["policy/ratio_cap_fraction"]).toBe(0.25);
  },
);

test("the KL of two outcomes is what decides", () => {
  // q = 0.5, p = 0.75: 0.5 log(2/3) + 0.5 log 2 = 0.1438.
  const inputs = exampleInputs({ ratios: [[1.5]], advantages: [[1]], anchor: [[Math.log(0.5)]] });
  const dropped = (divergenceHigh: number) =>
    readMetrics(dppoLoss(inputs, { divergence: "kl", ...bounds, divergenceHigh }).metrics)["policy/clip_fraction"];
  expect(dropped(0.143)).toBe(1);
  expect(dropped(0.144)).toBe(0);
});

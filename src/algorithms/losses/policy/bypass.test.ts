import { expect, test } from "vitest";
import { exampleInputs } from "../../../testing/example-inputs.ts";
import { gradients } from "../../../torch/autograd.ts";
import { type RolloutCorrectionOptions, resolveCorrection } from "../../corrections/correction-options.ts";
import { correctRollout } from "../../corrections/rollout-correction.ts";
import { globalDenominators } from "../../reduce.ts";
import { reduceOutput } from "../loss-output.ts";
import { type BypassOptions, bypassLoss } from "./bypass.ts";
import { ppoClipLoss } from "./ppo-clip.ts";

const clip = { clipLow: 0.2, clipHigh: 0.2, dualClip: null };

function run(ratios: number[][], options: RolloutCorrectionOptions, loss: BypassOptions["loss"]) {
  const inputs = exampleInputs({ ratios, advantages: ratios.map((row) => row.map(() => 2)) });
  const bypass = bypassLoss(
    { ...inputs, samplerLogprobs_BT: inputs.anchorLogprobs_BT },
    { correction: resolveCorrection(options), loss },
  );
  const groupOf = ratios.map((_, row) => row);
  const denominators = globalDenominators(inputs.lossMask_BT, groupOf);
  const rows = { lossMask_BT: bypass.lossMask_BT, groupOf };
  const reduced = reduceOutput(bypass.output, rows, { type: "token-mean" }, denominators);
  const [gradient] = gradients([reduced], [inputs.policyLogprobs_BT]);
  return { loss: reduced.item(), gradient: gradient!.toArray() };
}

const importance = { level: "token", threshold: 1.5 } as const;

test("reinforce multiplies the gradient by the bounded weight", () => {
  // Two tokens: -w A / 2 with w = 1.1 and the bound 1.5.
  const { gradient } = run([[1.1, 3]], { importance }, { type: "reinforce" });
  expect(gradient[0]).toBeCloseTo(-1.1, 12);
  expect(gradient[1]).toBeCloseTo(-1.5, 12);
});

test("ppo-clip lets the ratio correct, and uses no weights", () => {
  const { gradient } = run([[1.1, 3]], { importance }, { type: "ppo-clip", ...clip });
  expect(gradient[0]).toBeCloseTo(-1.1, 12);
  expect(gradient[1]).toBe(0);
});

test("rejected tokens have no gradient and stay in the denominator of the batch", () => {
  const { gradient } = run([[1.1, 3]], { rejections: { token_k1: 2 } }, { type: "reinforce" });
  expect(gradient[0]).toBeCloseTo(-1, 12);
  expect(Math.abs(gradient[1]!)).toBe(0);
});

test("a batch that is rejected whole has loss 0 and gradient 0", () => {
  const { loss, gradient } = run([[5, 3]], { rejections: { token_k1: 2 } }, { type: "reinforce" });
  expect([loss, ...gradient].map(Math.abs)).toEqual([0, 0, 0]);
});

test("outside of bypass mode the weights multiply PPO-clip: IcePop's 0.607, 0 and 0.819", () => {
  const advantages = [[1, -1, 2]];
  const inputs = exampleInputs({ ratios: [[1, 1, 1]], advantages });
  // The sampler found the tokens more likely by 0.5, 2 and 0.2 nats.
  const logRatios = exampleInputs({ ratios: [[Math.exp(0.5), Math.exp(2), Math.exp(0.2)]], advantages });
  const { weights_BT, lossMask_BT } = correctRollout(
    {
      policyLogprobs_BT: inputs.anchorLogprobs_BT,
      samplerLogprobs_BT: logRatios.policyLogprobs_BT,
      lossMask_BT: inputs.lossMask_BT,
    },
    resolveCorrection({ convention: "verl", importance: { level: "token", threshold: "0.5_2.0" } }),
  );
  const output = ppoClipLoss({ ...inputs, weights_BT: weights_BT! }, clip);
  const denominators = globalDenominators(lossMask_BT, [0]);
  const loss = reduceOutput(output, { lossMask_BT, groupOf: [0] }, { type: "token-mean" }, denominators);
  expect(loss.item()).toBeCloseTo((-0.60653067 - 2 * 0.81873075) / 3, 8);
});

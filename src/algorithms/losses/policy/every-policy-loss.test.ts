/** What must hold for every policy loss: its gradient, and what it does with bad inputs, float32 and microbatches. */
import { describe, expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { isCudaAvailable } from "../../../torch/cuda.ts";
import type { DType } from "../../../torch/dtype.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { resolveCorrection } from "../../corrections/correction-options.ts";
import { globalDenominators, type Reduction } from "../../reduce.ts";
import { addMetrics, readMetrics } from "../loss-metrics.ts";
import { type LossOutput, reduceOutput } from "../loss-output.ts";
import { bypassLoss } from "./bypass.ts";
import { cispoLoss } from "./cispo.ts";
import { clipCovLoss } from "./clip-cov.ts";
import { decoupledPpoLoss } from "./decoupled-ppo.ts";
import { dppoLoss } from "./dppo.ts";
import { gmpoLoss } from "./gmpo.ts";
import { gspoLoss } from "./gspo.ts";
import { klCovLoss } from "./kl-cov.ts";
import type { PolicyLossInputs } from "./policy-loss.ts";
import { ppoClipLoss } from "./ppo-clip.ts";
import { reinforceLoss } from "./reinforce.ts";
import { sapoLoss } from "./sapo.ts";
import { segmentClipLoss } from "./segment-clip.ts";
import { squaredPenaltyLoss } from "./squared-penalty.ts";
import { toprLoss } from "./topr.ts";
import { truncatedIsLoss } from "./truncated-is.ts";

const policy = [
  [-0.9, -1.4, -0.3, -2.2, -0.7],
  [-1.1, -0.6, -1.9, -0.2, -1.3],
  [-0.5, -2.6, -0.8, -1.0, -1.7],
];
const anchor = [
  [-1.0, -1.0, -0.35, -3.0, -0.7],
  [-1.15, -1.2, -1.3, -0.9, -1.0],
  [-1.5, -2.5, -0.3, -1.05, -1.0],
];
const advantages = [
  [1.2, 1.2, 1.2, -0.8, 1.2],
  [-1.5, -1.5, -1.5, -1.5, -1.5],
  [0.4, 0.4, 0.4, 0.4, 0.4],
];
const mask = [
  [1, 1, 1, 1, 0],
  [1, 1, 0, 1, 1],
  [0, 1, 1, 1, 0],
];
const weights = [
  [1.1, 0.9, 1.3, 0.5, 1],
  [0.8, 1.4, 1, 0.7, 1.2],
  [1, 0.6, 1.5, 1, 1],
];

const clip = { clipLow: 0.2, clipHigh: 0.28 };
const dppo = { divergenceLow: 0.05, divergenceHigh: 0.15, ratioHigh: 2 };
const correction = resolveCorrection({
  importance: { level: "sequence", threshold: 1.25 },
  rejections: { token_k1: 2 },
});

/** One token at the point where the gradient is taken. */
interface Point {
  readonly base: number;
  readonly ratio: number;
  /** exp of the mean, and of the sum, of the log-ratios of the sequence. */
  readonly meanRatio: number;
  readonly product: number;
  readonly anchor: number;
  readonly advantage: number;
}

interface Case {
  readonly loss: (inputs: PolicyLossInputs) => LossOutput;
  /** For losses that hold a factor fixed: what is differentiated, as a function of one log-prob x around a point. */
  readonly surrogate?: (x: number, point: Point) => number;
}

const within = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);
const ppo = (ratio: number, advantage: number) => Math.max(-advantage * ratio, -advantage * within(ratio, 0.8, 1.28));
const dppoWeight = (isInside: boolean, ratio: number) => (isInside ? Math.min(ratio, 2) : 0);

const cases: Record<string, Case> = {
  "ppo-clip": { loss: (inputs) => ppoClipLoss(inputs, { ...clip, dualClip: 1.5 }) },
  "decoupled-ppo": {
    loss: (inputs) =>
      decoupledPpoLoss(
        { ...inputs, samplerLogprobs_BT: inputs.anchorLogprobs_BT.mul(0.9) },
        { ...clip, dualClip: null, weightCap: 1, overCap: "truncate" },
      ),
  },
  sapo: { loss: (inputs) => sapoLoss(inputs, { temperaturePositive: 1, temperatureNegative: 1.05 }) },
  "segment-clip": { loss: (inputs) => segmentClipLoss(inputs, clip) },
  gmpo: { loss: (inputs) => gmpoLoss(inputs, { clipLow: 0.4, clipHigh: 0.4 }) },
  "squared-penalty": { loss: (inputs) => squaredPenaltyLoss(inputs, { beta: 0.1 }) },
  "clip-cov": {
    loss: (inputs) =>
      clipCovLoss(
        { ...inputs, selected_BT: inputs.advantages_BT.gt(1) },
        { ...clip, share: 0.2, covarianceLow: 0, covarianceHigh: 9 },
      ),
  },
  "kl-cov": {
    loss: (inputs) => klCovLoss({ ...inputs, selected_BT: inputs.advantages_BT.gt(1) }, { share: 0.2, penalty: 1 }),
  },
  gspo: {
    loss: (inputs) => gspoLoss(inputs, clip),
    surrogate: (x, { base, meanRatio, advantage }) => ppo(Math.exp(x - base) * meanRatio, advantage),
  },
  reinforce: {
    loss: (inputs) => reinforceLoss(inputs, { importance: "ratio" }),
    surrogate: (x, { ratio, advantage }) => -ratio * advantage * x,
  },
  "truncated-is": {
    loss: (inputs) => truncatedIsLoss(inputs, { ratioLow: 0, ratioHigh: 1 }),
    surrogate: (x, { ratio, advantage }) => -Math.min(ratio, 1) * advantage * x,
  },
  cispo: {
    loss: (inputs) => cispoLoss(inputs, { ...clip, dropsPpoClipped: false }),
    surrogate: (x, { ratio, advantage }) => -within(ratio, 0.8, 1.28) * advantage * x,
  },
  topr: {
    loss: (inputs) =>
      toprLoss(
        { ...inputs, rewards_B: inputs.advantages_BT.select(1, 0) },
        { weightPositive: 1, weightNegative: 0.7, level: "token" },
      ),
    surrogate: (x, { ratio, advantage }) =>
      // Row 1 is the one with a negative reward; its advantages are -1.5.
      -(advantage === -1.5 ? 0.7 * Math.min(ratio, 1) : 1) * advantage * x,
  },
  "dppo-tv": {
    loss: (inputs) => dppoLoss(inputs, { divergence: "tv", ...dppo }),
    surrogate: (x, { base, ratio, anchor: q, advantage }) => {
      const rise = Math.exp(base) - Math.exp(q);
      return -dppoWeight(advantage > 0 ? rise <= 0.15 : rise >= -0.05, ratio) * advantage * x;
    },
  },
  "dppo-kl": {
    loss: (inputs) => dppoLoss(inputs, { divergence: "kl", ...dppo }),
    surrogate: (x, { base, ratio, anchor: logQ, advantage }) => {
      const [p, q] = [Math.exp(base), Math.exp(logQ)];
      const kl = q * (logQ - base) + (1 - q) * Math.log((1 - q) / (1 - p));
      const isInside = advantage > 0 ? kl <= 0.15 || p <= q : kl <= 0.05 || p >= q;
      return -dppoWeight(isInside, ratio) * advantage * x;
    },
  },
  bypass: {
    loss: (inputs) => bypassOutput(inputs),
    surrogate: (x, { ratio, product, advantage }) =>
      (ratio >= 0.5 && ratio <= 2 ? -within(product, 0.8, 1.25) : 0) * advantage * x,
  },
};

function bypassOutput(inputs: PolicyLossInputs): LossOutput {
  const { output, lossMask_BT } = bypassLoss(
    { ...inputs, samplerLogprobs_BT: inputs.anchorLogprobs_BT },
    { correction, loss: { type: "reinforce" } },
  );
  // Rejected tokens have no loss, so that all losses here can be reduced with the same mask.
  return output.level === "token" ? { ...output, loss_BT: output.loss_BT.where(lossMask_BT, 0) } : output;
}

interface Numbers {
  readonly policy: number[][];
  readonly anchor: number[][];
  readonly advantages: number[][];
  readonly mask: number[][];
  readonly weights?: number[][];
}

const numbers: Numbers = { policy, anchor, advantages, mask };

function inputsOf(from: Numbers, dtype: DType = "float64"): PolicyLossInputs {
  const policyLogprobs_BT = tensor(from.policy, { dtype });
  policyLogprobs_BT.requiresGrad = true;
  return {
    policyLogprobs_BT,
    anchorLogprobs_BT: tensor(from.anchor, { dtype }),
    advantages_BT: tensor(from.advantages, { dtype }),
    lossMask_BT: tensor(from.mask).ne(0),
    ...(from.weights && { weights_BT: tensor(from.weights, { dtype }) }),
  };
}

function total(output: LossOutput): Tensor {
  return output.level === "token" ? output.loss_BT.sum() : output.loss_B.sum();
}

function gradientOf(loss: Case["loss"], inputs: PolicyLossInputs): number[] {
  const [gradient] = gradients([total(loss(inputs))], [inputs.policyLogprobs_BT]);
  return gradient!.toArray();
}

/** The derivative of f at every log-prob by central differences. */
function differences(f: (values: number[][]) => number, at: number[][], step = 1e-5): number[] {
  return at.flatMap((row, b) =>
    row.map((_, t) => {
      const moved = (by: number) => at.map((r, i) => r.map((x, j) => (i === b && j === t ? x + by : x)));
      return (f(moved(step)) - f(moved(-step))) / (2 * step);
    }),
  );
}

function sumOfSurrogates(surrogate: NonNullable<Case["surrogate"]>, values: number[][]): number {
  const terms = values.flatMap((row, b) => {
    const logs = row.map((_, t) => (mask[b]![t] === 1 ? policy[b]![t]! - anchor[b]![t]! : 0));
    const sum = logs.reduce((a, x) => a + x, 0);
    const length = mask[b]!.reduce((a, x) => a + x, 0);
    return row.map((x, t) => {
      if (mask[b]![t] === 0) return 0;
      return surrogate(x, {
        base: policy[b]![t]!,
        ratio: Math.exp(logs[t]!),
        meanRatio: Math.exp(sum / length),
        product: Math.exp(sum),
        anchor: anchor[b]![t]!,
        advantage: advantages[b]![t]!,
      });
    });
  });
  return terms.reduce((a, x) => a + x, 0);
}

describe.each(Object.entries(cases))("%s", (kind, { loss, surrogate }) => {
  test("has the gradient of finite differences", () => {
    const f = surrogate
      ? (values: number[][]) => sumOfSurrogates(surrogate, values)
      : (values: number[][]) => total(loss(inputsOf({ ...numbers, policy: values }))).item();
    const expected = differences(f, policy);
    gradientOf(loss, inputsOf(numbers)).forEach((value, i) => {
      expect(value).toBeCloseTo(expected[i]!, 7);
    });
    expect(expected.some((value) => Math.abs(value) > 0.1)).toBe(true);
  });

  test("gives the same in float32", () => {
    const single = gradientOf(loss, inputsOf({ ...numbers, weights }, "float32"));
    gradientOf(loss, inputsOf({ ...numbers, weights })).forEach((value, i) => {
      expect(single[i]).toBeCloseTo(value, 5);
    });
  });

  test.runIf(isCudaAvailable())("gives the same on CUDA", () => {
    const inputs = inputsOf({ ...numbers, weights });
    const moved = Object.fromEntries(
      Object.entries(inputs).map(([name, values]) => [name, values.detach().toDevice("cuda")]),
    ) as unknown as PolicyLossInputs;
    moved.policyLogprobs_BT.requiresGrad = true;
    const onDevice = gradientOf(loss, moved);
    gradientOf(loss, inputs).forEach((value, i) => {
      expect(onDevice[i]).toBeCloseTo(value, 12);
    });
  });

  test.each<Reduction>([
    { type: "token-mean" },
    { type: "token-sum" },
    { type: "seq-mean-token-mean" },
    { type: "seq-mean-token-sum" },
    { type: "seq-mean-token-sum-norm", lengthDivisor: 7 },
    { type: "prompt-mean" },
  ])("does not depend on the cut into microbatches: $type", (reduction) => {
    const groupOf = [0, 0, 1];
    const denominators = globalDenominators(inputsOf(numbers).lossMask_BT, groupOf);
    const run = (rows: number[]) => {
      const pick = (values: number[][]) => rows.map((row) => values[row]!);
      const inputs = inputsOf({
        policy: pick(policy),
        anchor: pick(anchor),
        advantages: pick(advantages),
        mask: pick(mask),
        weights: pick(weights),
      });
      const output = loss(inputs);
      const part = { lossMask_BT: inputs.lossMask_BT, groupOf: rows.map((row) => groupOf[row]!) };
      const share = reduceOutput(output, part, reduction, denominators);
      const [gradient] = gradients([share], [inputs.policyLogprobs_BT]);
      return { loss: share.item(), gradient: gradient!.toArray(), metrics: output.metrics };
    };
    const whole = run([0, 1, 2]);
    const parts = [run([0]), run([1, 2])];
    expect(parts[0]!.loss + parts[1]!.loss).toBeCloseTo(whole.loss, 12);
    parts
      .flatMap(({ gradient }) => gradient)
      .forEach((value, i) => {
        expect(value).toBeCloseTo(whole.gradient[i]!, 12);
      });
    const merged = readMetrics(addMetrics(parts.map(({ metrics }) => metrics)));
    for (const [name, value] of Object.entries(readMetrics(whole.metrics))) {
      expect(merged[name]).toBeCloseTo(value, 12);
    }
  });

  test("has loss 0 and gradient 0 over an empty mask", () => {
    const inputs = inputsOf({ ...numbers, mask: mask.map((row) => row.map(() => 0)) });
    expect(Math.abs(total(loss(inputs)).item())).toBe(0);
    expect(gradientOf(loss, inputs).every((value) => Math.abs(value) === 0)).toBe(true);
  });

  test("does not read what lies outside the mask", () => {
    const spoilt = (values: number[][]) =>
      values.map((row, b) => row.map((x, t) => (mask[b]![t] === 0 ? Number.NaN : x)));
    const inputs = inputsOf({
      policy: spoilt(policy),
      anchor: spoilt(anchor),
      advantages: advantages.map((row, b) => row.map((x, t) => (mask[b]![t] === 0 && t > 0 ? Number.NaN : x))),
      mask,
    });
    expect(gradientOf(loss, inputs)).toEqual(gradientOf(loss, inputsOf(numbers)));
  });

  test.each([
    ["policy", Number.NaN],
    ["policy", Number.NEGATIVE_INFINITY],
    ["policy", Number.POSITIVE_INFINITY],
    ["anchor", Number.NaN],
    ["anchor", Number.NEGATIVE_INFINITY],
    ["advantages", Number.NaN],
    ["advantages", Number.POSITIVE_INFINITY],
    // Bypass mode makes its own weights.
    ...(kind === "bypass" ? [] : [["weights", Number.POSITIVE_INFINITY] as const]),
  ] as const)("leaves a token out where %s is %s", (name, value) => {
    const wrong = { ...numbers, weights }[name].map((row, b) => row.map((x, t) => (b === 0 && t === 1 ? value : x)));
    const inputs = inputsOf({ ...numbers, weights, [name]: wrong });
    const output = loss(inputs);
    const gradient = gradients([total(output)], [inputs.policyLogprobs_BT])[0]!.toArray();
    expect(Number.isFinite(total(output).item())).toBe(true);
    expect(gradient.every(Number.isFinite)).toBe(true);
    expect(Math.abs(gradient[1]!)).toBe(0);
    expect(gradient.some((one) => Math.abs(one) > 0.1)).toBe(true);
  });

  test("refuses tensors of other shapes and masks that are not bool", () => {
    const inputs = inputsOf(numbers);
    expect(() => loss({ ...inputs, advantages_BT: inputs.advantages_BT.narrow(1, 0, 4) })).toThrow(/\[3, 4\]/);
    expect(() => loss({ ...inputs, lossMask_BT: inputs.lossMask_BT.to("float64") })).toThrow(/must be a bool tensor/);
  });
});

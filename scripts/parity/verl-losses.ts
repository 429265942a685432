/**
 * Compares policy losses and the value loss with what verl's own functions computed for the same inputs.
 *
 * In: a folder with policy-loss.json and misc.json. Out: the largest relative error per kind; infinite where a value that
 * verl has is missing.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { readCorrectionMetrics } from "../../src/algorithms/corrections/correction-metrics.ts";
import { resolveCorrection } from "../../src/algorithms/corrections/correction-options.ts";
import { parseVerlOptions } from "../../src/algorithms/corrections/parse-verl-options.ts";
import { type LossOutput, reduceOutput } from "../../src/algorithms/losses/loss-output.ts";
import { bypassLoss } from "../../src/algorithms/losses/policy/bypass.ts";
import { cispoLoss } from "../../src/algorithms/losses/policy/cispo.ts";
import { dppoLoss } from "../../src/algorithms/losses/policy/dppo.ts";
import { gmpoLoss } from "../../src/algorithms/losses/policy/gmpo.ts";
import { gspoLoss } from "../../src/algorithms/losses/policy/gspo.ts";
import type { PolicyLossInputs } from "../../src/algorithms/losses/policy/policy-loss.ts";
import { ppoClipLoss } from "../../src/algorithms/losses/policy/ppo-clip.ts";
import { reinforceLoss } from "../../src/algorithms/losses/policy/reinforce.ts";
import { sapoLoss } from "../../src/algorithms/losses/policy/sapo.ts";
import { squaredPenaltyLoss } from "../../src/algorithms/losses/policy/squared-penalty.ts";
import { valueLoss } from "../../src/algorithms/losses/value-loss.ts";
import { COUNT_EPSILON } from "../../src/algorithms/masked.ts";
import { globalDenominators, type Reduction } from "../../src/algorithms/reduce.ts";
import type { LossMetrics } from "../../src/flow/batch-statistics.ts";
import { gradients } from "../../src/torch/autograd.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

const matrix = z.array(z.array(z.number()));
const aggregation = z.enum([
  "token-mean",
  "token-sum",
  "seq-mean-token-mean",
  "seq-mean-token-sum",
  "seq-mean-token-sum-norm",
]);
const lossCase = z.object({
  name: z.enum(["vanilla", "gspo", "sapo", "gpg", "geo_mean", "dro", "cispo", "dppo_tv", "dppo_kl", "bypass_mode"]),
  agg: aggregation,
  config: z.object({
    clip_ratio: z.number(),
    clip_ratio_low: z.number().nullable(),
    clip_ratio_high: z.number().nullable(),
    clip_ratio_c: z.number(),
    tau_pos: z.number(),
    tau_neg: z.number(),
    policy_loss: z.object({
      dro_beta: z.number(),
      rollout_correction: z.record(z.string(), z.unknown()).nullable(),
    }),
  }),
  oldLogprobs: matrix,
  logprobs: matrix,
  advantages: matrix,
  mask: matrix,
  isWeights: matrix.nullable(),
  loss: z.number(),
  grad: matrix,
  metrics: z.record(z.string(), z.number()),
});
type LossCase = z.infer<typeof lossCase>;

const valueCase = z.object({
  vpreds: matrix,
  returns: matrix,
  values: matrix,
  mask: matrix,
  clip: z.number(),
  loss: z.number(),
  clipfrac: z.number(),
});

/** The largest relative error of loss, gradient and metrics of every policy loss, and of the value loss. */
export function checkVerlLosses(folder: string): Record<string, number> {
  const errors: Record<string, number> = {};
  const note = (kind: string, got: readonly number[], expected: readonly number[]) => {
    errors[kind] = Math.max(errors[kind] ?? 0, relativeError(got, expected));
  };
  for (const golden of z.array(lossCase).parse(readJson(folder, "policy-loss.json"))) {
    const got = tensorScope(() => runLoss(golden));
    const names = Object.keys(golden.metrics);
    note(`policy-loss.${golden.name}.loss`, [got.loss], [golden.loss]);
    note(`policy-loss.${golden.name}.grad`, got.grad, golden.grad.flat());
    note(
      `policy-loss.${golden.name}.metrics`,
      names.map((name) => got.metrics[name] ?? Number.NaN),
      names.map((name) => golden.metrics[name]!),
    );
  }
  for (const golden of z.object({ value: z.array(valueCase) }).parse(readJson(folder, "misc.json")).value) {
    const got = tensorScope(() => runValueLoss(golden));
    note("value.loss", [got.loss], [golden.loss]);
    note("value.clipfrac", [got.clipfrac], [golden.clipfrac]);
  }
  return errors;
}

/** The largest |got - expected| / |expected|, absolute where 0 is expected. NaN and missing values are infinitely wrong. */
export function relativeError(got: readonly number[], expected: readonly number[]): number {
  if (got.length !== expected.length) return Number.POSITIVE_INFINITY;
  return expected.reduce((worst, value, i) => {
    const error = Math.abs(got[i]! - value) / (Math.abs(value) || 1);
    return Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(worst, error);
  }, 0);
}

export function readJson(folder: string, name: string): unknown {
  return JSON.parse(readFileSync(join(folder, name), "utf8"));
}

function runLoss(golden: LossCase): { loss: number; grad: number[]; metrics: Record<string, number> } {
  const policyLogprobs_BT = float64(golden.logprobs);
  policyLogprobs_BT.requiresGrad = true;
  const inputs: PolicyLossInputs = {
    policyLogprobs_BT,
    anchorLogprobs_BT: float64(golden.oldLogprobs),
    advantages_BT: float64(golden.advantages),
    lossMask_BT: float64(golden.mask).ne(0),
    ...(golden.isWeights && { weights_BT: float64(golden.isWeights) }),
  };
  const { output, lossMask_BT, correctionMetrics } = lossOf(golden, inputs);
  const loss = reduceAsVerl(golden, output, lossMask_BT);
  const [grad] = gradients([loss], [policyLogprobs_BT]);
  return {
    loss: loss.item(),
    grad: grad?.toArray() ?? [],
    metrics: { ...verlMetrics(output.metrics), ...correctionMetrics },
  };
}

interface LossRun {
  readonly output: LossOutput;
  readonly lossMask_BT: Tensor;
  readonly correctionMetrics: Record<string, number>;
}

function lossOf({ name, config }: LossCase, inputs: PolicyLossInputs): LossRun {
  const clipLow = config.clip_ratio_low ?? config.clip_ratio;
  const clipHigh = config.clip_ratio_high ?? config.clip_ratio;
  const plain = (output: LossOutput): LossRun => ({
    output,
    lossMask_BT: inputs.lossMask_BT,
    correctionMetrics: {},
  });
  const dppo = { divergenceLow: clipLow, divergenceHigh: clipHigh, ratioHigh: config.clip_ratio_c };
  switch (name) {
    case "vanilla":
      return plain(ppoClipLoss(inputs, { clipLow, clipHigh, dualClip: config.clip_ratio_c }));
    case "gspo":
      return plain(gspoLoss(inputs, { clipLow, clipHigh }));
    case "sapo":
      return plain(sapoLoss(inputs, { temperaturePositive: config.tau_pos, temperatureNegative: config.tau_neg }));
    case "gpg":
      return plain(reinforceLoss(inputs, { importance: "none" }));
    case "geo_mean":
      return plain(gmpoLoss(inputs, { clipLow, clipHigh }));
    case "dro":
      return plain(squaredPenaltyLoss(inputs, { beta: config.policy_loss.dro_beta }));
    case "cispo":
      return plain(cispoLoss(inputs, { clipLow, clipHigh, dropsPpoClipped: false }));
    case "dppo_tv":
      return plain(dppoLoss(inputs, { divergence: "tv", ...dppo }));
    case "dppo_kl":
      return plain(dppoLoss(inputs, { divergence: "kl", ...dppo }));
    case "bypass_mode":
      return bypass(config, inputs, { clipLow, clipHigh });
  }
}

function bypass(
  config: LossCase["config"],
  inputs: PolicyLossInputs,
  clip: { clipLow: number; clipHigh: number },
): LossRun {
  const options = { bypass_mode: true, ...config.policy_loss.rollout_correction };
  const { correction, lossType } = parseVerlOptions(options);
  const { output, lossMask_BT, correctionMetrics } = bypassLoss(
    { ...inputs, samplerLogprobs_BT: inputs.anchorLogprobs_BT },
    {
      correction: resolveCorrection(correction),
      loss:
        lossType === "reinforce" ? { type: "reinforce" } : { type: "ppo-clip", ...clip, dualClip: config.clip_ratio_c },
    },
  );
  return { output, lossMask_BT, correctionMetrics: readCorrectionMetrics(correctionMetrics) };
}

/** GSPO and SAPO always average over tokens, then sequences; GMPO over all rows, empty ones among them. */
function reduceAsVerl({ name, agg, mask }: LossCase, output: LossOutput, lossMask_BT: Tensor): Tensor {
  const groupOf = mask.map((_, row) => row);
  const counted = globalDenominators(lossMask_BT, groupOf);
  const denominators = name === "geo_mean" ? { ...counted, numTrajectories: mask.length } : counted;
  const type = name === "gspo" || name === "sapo" ? "seq-mean-token-mean" : agg;
  const reduction: Reduction =
    type === "seq-mean-token-sum-norm" ? { type, lengthDivisor: mask[0]?.length ?? 1 } : { type };
  return reduceOutput(output, { lossMask_BT, groupOf }, reduction, denominators);
}

const VERL_NAMES: Readonly<Record<string, string>> = {
  "policy/clip_fraction": "actor/pg_clipfrac",
  "policy/clip_fraction_positive": "actor/pg_clipfrac",
  "policy/dual_clip_fraction": "actor/pg_clipfrac_lower",
  "policy/ratio_cap_fraction": "actor/pg_clipfrac_lower",
  "policy/clip_fraction_negative": "actor/pg_clipfrac_lower",
  "policy/anchor_kl": "actor/ppo_kl",
};

/** verl divides by count + 1e-8, and reports 0 for clip fractions that a loss does not have. */
function verlMetrics(metrics: LossMetrics): Record<string, number> {
  const renamed = Object.entries(metrics).map(([name, { sum, count }]) => [
    VERL_NAMES[name] ?? name,
    sum.item() / (count.item() + COUNT_EPSILON),
  ]);
  return { "actor/pg_clipfrac": 0, "actor/pg_clipfrac_lower": 0, ...Object.fromEntries(renamed) };
}

function runValueLoss(golden: z.infer<typeof valueCase>): { loss: number; clipfrac: number } {
  const lossMask_BT = float64(golden.mask).ne(0);
  const output = valueLoss(
    {
      values_BT: float64(golden.vpreds),
      oldValues_BT: float64(golden.values),
      returns_BT: float64(golden.returns),
      lossMask_BT,
    },
    { valueClip: golden.clip },
  );
  const groupOf = golden.mask.map((_, row) => row);
  const denominators = globalDenominators(lossMask_BT, groupOf);
  const loss = reduceOutput(output, { lossMask_BT, groupOf }, { type: "token-mean" }, denominators);
  const { sum, count } = output.metrics["value/clip_fraction"]!;
  return { loss: loss.item(), clipfrac: sum.item() / (count.item() + COUNT_EPSILON) };
}

function float64(values: number[][]): Tensor {
  return tensor(values, { dtype: "float64" });
}

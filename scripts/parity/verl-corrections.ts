/**
 * Compares rollout correction with what verl's own function computed for the same log-probs and option strings.
 *
 * In: a folder with rollout-correction.json. Out: the largest relative error per kind; infinite where a metric is missing.
 */
import { z } from "zod";
import { readCorrectionMetrics } from "../../src/algorithms/corrections/correction-metrics.ts";
import { resolveCorrection } from "../../src/algorithms/corrections/correction-options.ts";
import { parseVerlOptions } from "../../src/algorithms/corrections/parse-verl-options.ts";
import { correctRollout } from "../../src/algorithms/corrections/rollout-correction.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { readJson, relativeError } from "./verl-losses.ts";

const matrix = z.array(z.array(z.number()));
const correctionCase = z.object({
  policyLogprobs: matrix,
  samplerLogprobs: matrix,
  mask: matrix,
  options: z.record(z.string(), z.unknown()),
  weights: matrix.nullable(),
  modifiedMask: matrix,
  metrics: z.record(z.string(), z.number()),
});
type CorrectionCase = z.infer<typeof correctionCase>;

/** The largest relative error of weights and metrics; for masks, 1 where any entry differs. */
export function checkVerlCorrections(folder: string): Record<string, number> {
  const errors: Record<string, number> = {};
  const note = (kind: string, got: readonly number[], expected: readonly number[]) => {
    errors[kind] = Math.max(errors[kind] ?? 0, relativeError(got, expected));
  };
  for (const golden of z.array(correctionCase).parse(readJson(folder, "rollout-correction.json"))) {
    const got = tensorScope(() => runCorrection(golden));
    note("rollout-correction.weights", got.weights, golden.weights?.flat() ?? []);
    note("rollout-correction.mask", got.mask, golden.modifiedMask.flat());
    for (const [name, expected] of Object.entries(golden.metrics)) {
      note(`rollout-correction.metrics.${kindOf(name)}`, [got.metrics[name] ?? Number.NaN], [expected]);
    }
  }
  return errors;
}

function runCorrection({ policyLogprobs, samplerLogprobs, mask, options }: CorrectionCase) {
  const { weights_BT, lossMask_BT, metrics } = correctRollout(
    {
      policyLogprobs_BT: tensor(policyLogprobs, { dtype: "float64" }),
      samplerLogprobs_BT: tensor(samplerLogprobs, { dtype: "float64" }),
      lossMask_BT: tensor(mask).ne(0),
    },
    resolveCorrection(parseVerlOptions(options).correction),
  );
  return {
    weights: weights_BT?.toArray() ?? [],
    mask: lossMask_BT.toArray(),
    metrics: readCorrectionMetrics(metrics),
  };
}

/** Metrics of importance weights, of rejection, and of the gap between the policies. */
function kindOf(name: string): string {
  if (name.includes("/rollout_is_")) return "weights";
  return name.includes("/rollout_rs_") ? "rejection" : "off-policy";
}

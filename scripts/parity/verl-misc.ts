/**
 * Compares KL estimates, loss reductions and the adaptive KL controller with what verl computed.
 *
 * In: a folder with verl's misc.json. Out: the largest relative error per kind.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type KlController, updateKlController } from "../../src/algorithms/kl/controller.ts";
import { klEstimate, parseKlEstimator } from "../../src/algorithms/kl/estimate.ts";
import { maskedSum } from "../../src/algorithms/masked.ts";
import { globalDenominators, type Reduction, reduceLoss } from "../../src/algorithms/reduce.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";

const matrix = z.array(z.array(z.number()));
const klSchema = z.object({
  name: z.string(),
  logprobs: matrix,
  ref: matrix,
  mask: matrix,
  value: matrix,
  gradOfMaskedSum: matrix,
});
const modes = [
  "token-mean",
  "token-sum",
  "seq-mean-token-mean",
  "seq-mean-token-sum",
  "seq-mean-token-sum-norm",
] as const;
const aggregationSchema = z.object({ mode: z.enum(modes), loss: matrix, mask: matrix, value: z.number() });
const controllerSchema = z.object({
  init: z.number(),
  target: z.number(),
  horizon: z.number(),
  steps: z.array(z.object({ kl: z.number(), n: z.number(), value: z.number() })),
});
const miscSchema = z.object({
  kl: z.array(klSchema),
  agg: z.array(aggregationSchema),
  klcontrol: controllerSchema,
});

/** The largest error of each KL estimator's value and gradient, of each reduction, and of the controller. */
export function checkVerlMisc(folder: string): Record<string, number> {
  const golden = miscSchema.parse(JSON.parse(readFileSync(join(folder, "misc.json"), "utf8")));
  const errors: Record<string, number> = {};
  for (const one of golden.kl) {
    const { value, gradient } = tensorScope(() => estimateKl(one));
    note(errors, `kl.${one.name}.value`, value, one.value.flat());
    note(errors, `kl.${one.name}.gradient`, gradient, one.gradOfMaskedSum.flat());
  }
  for (const one of golden.agg) note(errors, `agg.${one.mode}`, [tensorScope(() => reduce(one))], [one.value]);
  note(
    errors,
    "klcontrol",
    runController(golden.klcontrol),
    golden.klcontrol.steps.map((step) => step.value),
  );
  return errors;
}

function estimateKl({ name, logprobs, ref, mask }: z.infer<typeof klSchema>): { value: number[]; gradient: number[] } {
  const policyLogprobs = tensor(logprobs, { dtype: "float64" });
  policyLogprobs.requiresGrad = true;
  const kl = klEstimate(policyLogprobs, tensor(ref, { dtype: "float64" }), parseKlEstimator(name));
  maskedSum(kl, tensor(mask, { dtype: "bool" })).backward();
  return { value: kl.toArray(), gradient: policyLogprobs.grad!.toArray() };
}

function reduce({ mode, loss, mask }: z.infer<typeof aggregationSchema>): number {
  const lossMask_BT = tensor(mask, { dtype: "bool" });
  const groupOf = mask.map((_, row) => row);
  const loss_BT = tensor(loss, { dtype: "float64" });
  const lengthDivisor = loss_BT.size(1);
  const reduction: Reduction = mode === "seq-mean-token-sum-norm" ? { type: mode, lengthDivisor } : { type: mode };
  return reduceLoss(loss_BT, { lossMask_BT, groupOf }, reduction, globalDenominators(lossMask_BT, groupOf)).item();
}

function runController({ init, target, horizon, steps }: z.infer<typeof controllerSchema>): number[] {
  let controller: KlController = { type: "adaptive", coefficient: init, targetKl: target, horizon };
  return steps.map(({ kl, n }) => {
    controller = updateKlController(controller, kl, n);
    return controller.coefficient;
  });
}

function note(errors: Record<string, number>, kind: string, got: readonly number[], expected: readonly number[]): void {
  for (const [i, value] of expected.entries()) {
    const error = Math.abs(got[i]! - value) / Math.max(Math.abs(value), SMALLEST);
    errors[kind] = Math.max(errors[kind] ?? 0, Number.isNaN(error) ? Number.POSITIVE_INFINITY : error);
  }
}

// Values of order 1 that cancel leave rounding errors where the exact answer is 0.
const SMALLEST = 1e-3;

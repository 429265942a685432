/** The coefficient of a KL penalty over time: a state, and how it moves from one step to the next. */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectPositive, expectRange } from "../expect-batch.ts";

/** Plain data, so that a checkpoint can hold it. */
export type KlController =
  | { readonly type: "fixed"; readonly coefficient: number }
  | {
      readonly type: "adaptive";
      readonly coefficient: number;
      /** Target KL per token. */
      readonly targetKl: number;
      /** Number of steps over which a full correction is spread, in the unit of `numSteps`. */
      readonly horizon: number;
    };

/**
 * The controller after `numSteps` steps at a measured KL. A fixed one stays as it is. An adaptive one follows
 *
 * coefficient (1 + clip(kl / targetKl - 1, -0.2, 0.2) numSteps / horizon)
 *
 * and never goes below 0. Source: arXiv:1909.08593, section 2.2. verl counts `numSteps` in rows of the batch.
 */
export function updateKlController(controller: KlController, measuredKl: number, numSteps: number): KlController {
  if (!Number.isFinite(measuredKl)) {
    throw new RerollError("NON_FINITE", `the measured KL must be finite: got ${measuredKl}.`, { measuredKl });
  }
  expectRange("numSteps", numSteps, 0, Number.MAX_SAFE_INTEGER);
  expectRange("coefficient", controller.coefficient, 0);
  if (controller.type === "fixed") return controller;
  const { coefficient, targetKl, horizon } = controller;
  expectPositive("targetKl", targetKl);
  expectPositive("horizon", horizon);
  const error = Math.min(Math.max(measuredKl / targetKl - 1, -MAX_ERROR), MAX_ERROR);
  return { ...controller, coefficient: coefficient * Math.max(1 + (error * numSteps) / horizon, 0) };
}

const MAX_ERROR = 0.2;

/** The coefficient of the entropy bonus over time: a state, and how it moves from one step to the next. */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectRange } from "../expect-batch.ts";

/** Plain data, so that a checkpoint can hold it. */
export type EntropyController =
  | { readonly type: "fixed"; readonly coefficient: number }
  | {
      readonly type: "adaptive";
      readonly coefficient: number;
      /** The entropy per token to keep, in nats. */
      readonly target: number;
      /** Added to the coefficient when the entropy is below the target, subtracted when it is above. */
      readonly stepSize: number;
      readonly smallest: number;
      readonly largest: number;
      /** The entropy of the last step; null before the first one. */
      readonly entropy: number | null;
    };

/**
 * The controller after a step with a measured entropy. A fixed one stays as it is. An adaptive one follows
 *
 * coefficient <- clamp(coefficient + stepSize sign(target - entropy), smallest, largest)
 *
 * Source: Skywork-OR1, arXiv:2505.22312.
 */
export function updateEntropyController(controller: EntropyController, measuredEntropy: number): EntropyController {
  if (!Number.isFinite(measuredEntropy)) {
    throw new RerollError(
      "NON_FINITE",
      `the measured entropy must be finite: got ${measuredEntropy}. Pass the mean over the loss tokens of the step.`,
      { measuredEntropy },
    );
  }
  if (controller.type === "fixed") return controller;
  const { coefficient, target, stepSize, smallest, largest } = controller;
  expectRange("target", target, 0);
  expectRange("stepSize", stepSize, 0);
  expectRange("smallest", smallest, 0, largest);
  const moved = coefficient + stepSize * Math.sign(target - measuredEntropy);
  return { ...controller, coefficient: Math.min(Math.max(moved, smallest), largest), entropy: measuredEntropy };
}

/** The coefficient of the next loss. An adaptive bonus is off while the entropy is above its target. */
export function entropyCoefficient(controller: EntropyController): number {
  if (controller.type === "fixed" || controller.entropy === null) return controller.coefficient;
  return controller.entropy <= controller.target ? controller.coefficient : 0;
}

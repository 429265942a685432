/** A control policy in a folder. */
import { z } from "zod";
import type { ActivationName } from "../../torch/nn/activation.ts";
import { activations } from "../../torch/nn/activation.ts";
import { Generator } from "../../torch/random.ts";
import { ControlPolicy } from "./control-policy.ts";
import { loadPolicyWeights, readPolicyShape, savePolicyFolder } from "./policy-folder.ts";

const shapeOptions = z.strictObject({
  observationSize: z.int().positive(),
  actions: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("discrete"), count: z.int().positive() }),
    z.strictObject({ kind: z.literal("continuous"), size: z.int().positive() }),
  ]),
  hidden: z.array(z.int().positive()),
  activation: z.enum(Object.keys(activations) as [ActivationName]),
  normalizeObservations: z.boolean(),
});

/** All that is needed to build a policy of the same shape. */
export type ControlPolicyShape = z.output<typeof shapeOptions>;

/** Writes the policy into the folder, which is made where it is missing. */
export function saveControlPolicy(policy: ControlPolicy, shape: ControlPolicyShape, folder: string): void {
  savePolicyFolder(policy, shape, folder);
}

/** The policy that was written there, and its shape. */
export function loadControlPolicy(folder: string): {
  readonly policy: ControlPolicy;
  readonly shape: ControlPolicyShape;
} {
  const shape = readControlPolicyShape(folder);
  const generator = new Generator(0);
  const policy = new ControlPolicy({ ...shape, generator });
  generator.dispose();
  loadPolicyWeights(policy, folder);
  return { policy, shape };
}

/** The shape of the policy that was written there. */
export function readControlPolicyShape(folder: string): ControlPolicyShape {
  return readPolicyShape(shapeOptions, folder, "a control policy");
}

/** Teacher and student in a folder, with all their networks. */
import { z } from "zod";
import { loadPolicyWeights, readPolicyShape, savePolicyFolder } from "../../policy/policy-folder.ts";
import { AdaptationPolicy } from "./adaptation-policy.ts";

const slice = z.strictObject({ start: z.int().min(0), size: z.int().min(0) });
const widths = z.array(z.int().positive());

const shapeOptions = z.strictObject({
  observationSize: z.int().positive(),
  layout: z.strictObject({ cmd: slice, obs: slice, object: slice, priv: slice }),
  actionSize: z.int().positive(),
  numRewardGroups: z.int().positive(),
  latentSize: z.int().positive(),
  actorHidden: widths,
  criticHidden: widths,
  adaptModule: z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("mlp"), history: z.int().positive() }),
    z.strictObject({ type: z.literal("gru") }),
  ]),
  logStd: z.number(),
  normalizerDecay: z.number(),
});

/** All that is needed to build networks of the same shape. */
export type AdaptationPolicyShape = z.output<typeof shapeOptions>;

/** Writes the policy into the folder, which is made where it is missing. */
export function saveAdaptationPolicy(policy: AdaptationPolicy, shape: AdaptationPolicyShape, folder: string): void {
  savePolicyFolder(policy, shape, folder);
}

/** The policy that was written there. */
export function loadAdaptationPolicy(folder: string): AdaptationPolicy {
  const policy = new AdaptationPolicy({ ...readAdaptationPolicyShape(folder), seed: 0 });
  loadPolicyWeights(policy, folder);
  return policy;
}

/** The shape of the policy that was written to a folder. */
export function readAdaptationPolicyShape(folder: string): AdaptationPolicyShape {
  return readPolicyShape(shapeOptions, folder, "an adaptation policy");
}

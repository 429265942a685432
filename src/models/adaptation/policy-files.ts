/**
 * Teacher and student in a folder: `policy.safetensors` with all weights and statistics, and `policy.json` with their shape.
 *
 * What is loaded gives the same actions, to the bit.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { tensorScope } from "../../torch/scope.ts";
import { resolveCheckpoint } from "../files/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../files/tensor-files.ts";
import { writeSafetensors } from "../files/write-safetensors.ts";
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
  mkdirSync(folder, { recursive: true });
  tensorScope(() =>
    writeSafetensors(
      join(folder, "policy.safetensors"),
      [...policy.stateDict()].map(([name, values]) => tensorSource(name, values)),
    ),
  );
  writeFileSync(join(folder, "policy.json"), `${JSON.stringify(shape, null, 2)}\n`);
}

/** The policy that was written there. */
export function loadAdaptationPolicy(folder: string): AdaptationPolicy {
  const policy = new AdaptationPolicy({ ...readAdaptationPolicyShape(folder), seed: 0 });
  const mapped = new MappedCheckpoint(resolveCheckpoint(join(folder, "policy.safetensors")));
  try {
    tensorScope(() =>
      policy.loadStateDict(new Map([...policy.namedParameters().keys()].map((name) => [name, mapped.read(name)]))),
    );
  } finally {
    mapped.dispose();
  }
  return policy;
}

/** The shape of the policy that was written to a folder. */
export function readAdaptationPolicyShape(folder: string): AdaptationPolicyShape {
  const path = join(folder, "policy.json");
  try {
    return shapeOptions.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    throw new RerollError(
      "CHECKPOINT_BROKEN",
      `${path} cannot be read: ${String(cause)}. Give the folder of an adaptation policy, such as model/ of a checkpoint.`,
      { path },
      { cause },
    );
  }
}

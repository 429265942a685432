/**
 * A control policy in a folder: `policy.safetensors` with its weights and statistics, and `policy.json` with its shape.
 *
 * What is loaded gives the same actions, to the bit.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { ActivationName } from "../../torch/nn/activation.ts";
import { activations } from "../../torch/nn/activation.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { resolveCheckpoint } from "../files/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../files/tensor-files.ts";
import { writeSafetensors } from "../files/write-safetensors.ts";
import { ControlPolicy } from "./control-policy.ts";

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
  mkdirSync(folder, { recursive: true });
  tensorScope(() =>
    writeSafetensors(
      join(folder, "policy.safetensors"),
      [...policy.stateDict()].map(([name, values]) => tensorSource(name, values)),
    ),
  );
  writeFileSync(join(folder, "policy.json"), `${JSON.stringify(shape, null, 2)}\n`);
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
  const mapped = new MappedCheckpoint(resolveCheckpoint(join(folder, "policy.safetensors")));
  try {
    tensorScope(() =>
      policy.loadStateDict(new Map([...policy.namedParameters().keys()].map((name) => [name, mapped.read(name)]))),
    );
  } finally {
    mapped.dispose();
  }
  return { policy, shape };
}

/** The shape of the policy that was written there. */
export function readControlPolicyShape(folder: string): ControlPolicyShape {
  const path = join(folder, "policy.json");
  try {
    return shapeOptions.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    throw new RerollError(
      "CHECKPOINT_BROKEN",
      `${path} cannot be read: ${String(cause)}. Give the folder of a control policy, such as model/ of a checkpoint.`,
      { path },
      { cause },
    );
  }
}

/**
 * A policy in a folder: `policy.safetensors` with its weights and statistics, and `policy.json` with its shape.
 *
 * Every kind of policy is saved and loaded here. A loaded policy gives the same actions as the saved one, to the bit.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { resolveCheckpoint } from "../../models/formats/resolve-checkpoint.ts";
import { writeSafetensors } from "../../models/formats/safetensors/write-safetensors.ts";
import { MappedCheckpoint, tensorSource } from "../../models/formats/tensor-files.ts";
import type { Module } from "../../torch/nn/module.ts";
import { tensorScope } from "../../torch/scope.ts";

/** A kind of policy: what its `policy.json` holds, and how to build one from that. */
export interface PolicyKind<Shape, Policy extends Module> {
  /** For errors: "a control policy". */
  readonly name: string;
  readonly shape: z.ZodType<Shape>;
  /** Builds a policy of this shape. Its weights are about to be overwritten. */
  readonly build: (shape: Shape) => Policy;
}

/** Writes a policy into a folder, which is created if it is missing. */
export function savePolicy(policy: Module, shape: object, folder: string): void {
  mkdirSync(folder, { recursive: true });
  tensorScope(() =>
    writeSafetensors(
      join(folder, "policy.safetensors"),
      [...policy.stateDict()].map(([name, values]) => tensorSource(name, values)),
    ),
  );
  writeFileSync(join(folder, "policy.json"), `${JSON.stringify(shape, null, 2)}\n`);
}

/** Builds the policy that was saved in a folder. */
export function loadPolicy<Shape, Policy extends Module>(
  kind: PolicyKind<Shape, Policy>,
  folder: string,
): { readonly policy: Policy; readonly shape: Shape } {
  const shape = readPolicyShape(kind, folder);
  const policy = kind.build(shape);
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

/** Reads the shape of the policy that was saved in a folder. */
export function readPolicyShape<Shape>(
  { name, shape }: Pick<PolicyKind<Shape, Module>, "name" | "shape">,
  folder: string,
): Shape {
  const path = join(folder, "policy.json");
  try {
    return shape.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    throw new RerollError(
      "CHECKPOINT_BROKEN",
      `${path} cannot be read: ${String(cause)}. Give the folder of ${name}, such as model/ of a checkpoint.`,
      { path },
      { cause },
    );
  }
}

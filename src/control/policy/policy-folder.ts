/**
 * A small policy in a folder: `policy.safetensors` with its weights and statistics, and `policy.json` with its shape.
 *
 * What is loaded gives the same actions, to the bit.
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

/** Writes both files into the folder, which is made where it is missing. */
export function savePolicyFolder(policy: Module, shape: object, folder: string): void {
  mkdirSync(folder, { recursive: true });
  tensorScope(() =>
    writeSafetensors(
      join(folder, "policy.safetensors"),
      [...policy.stateDict()].map(([name, values]) => tensorSource(name, values)),
    ),
  );
  writeFileSync(join(folder, "policy.json"), `${JSON.stringify(shape, null, 2)}\n`);
}

/** Puts the weights that were written there into a policy of the same shape. */
export function loadPolicyWeights(policy: Module, folder: string): void {
  const mapped = new MappedCheckpoint(resolveCheckpoint(join(folder, "policy.safetensors")));
  try {
    tensorScope(() =>
      policy.loadStateDict(new Map([...policy.namedParameters().keys()].map((name) => [name, mapped.read(name)]))),
    );
  } finally {
    mapped.dispose();
  }
}

/** The shape that was written there. `kind` says in an error what folder is wanted: "a control policy". */
export function readPolicyShape<Shape>(schema: z.ZodType<Shape>, folder: string, kind: string): Shape {
  const path = join(folder, "policy.json");
  try {
    return schema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    throw new RerollError(
      "CHECKPOINT_BROKEN",
      `${path} cannot be read: ${String(cause)}. Give the folder of ${kind}, such as model/ of a checkpoint.`,
      { path },
      { cause },
    );
  }
}

/** What roles hold from step to step, by what they are made of. */
import type { RoleMemory, RoleName } from "../../flow/worker-facts.ts";
import { bytesIn } from "../../torch/memory.ts";
import type { Module } from "../../torch/nn/module.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";

/** A role that has these modules and, where it learns, this optimizer. */
export function heldBytes(
  role: RoleName,
  {
    modules,
    optimizer,
    isAsleep = false,
  }: {
    readonly modules: readonly Module[];
    readonly optimizer?: Optimizer;
    readonly isAsleep?: boolean;
  },
): RoleMemory {
  const weights = modules.reduce((sum, module) => sum + bytesIn(module.parameters()), 0);
  return { role, bytes: weights + (optimizer instanceof AdamW ? optimizer.stateBytes : 0), isAsleep };
}

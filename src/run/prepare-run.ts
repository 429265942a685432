/**
 * Everything that is known of a run before it starts: from the words of the command line to a settled config and its plan.
 *
 * Nothing expensive happens here. What cannot work is refused with one error.
 */

import { totalmem } from "node:os";
import { constrainedMemory } from "node:process";
import { expectSecrets } from "../errors/redact.ts";
import { cudaProperties } from "../torch/cuda.ts";
import { parseOverride } from "./apply-overrides.ts";
import { checkFiles, teacherShapes } from "./check-files.ts";
import { checkPackages } from "./check-packages.ts";
import { checkRun } from "./check-run.ts";
import { checkVocabularies } from "./check-vocabulary.ts";
import { loadRunFile, type RawRun } from "./load-run-file.ts";
import { type Placement, placeRun } from "./machine.ts";
import { type Machine, planRun, type RunPlan } from "./plan-run.ts";
import { type ResolvedRun, type RunEnvironment, resolveRun } from "./resolve-run.ts";

/** A run that is checked and may start. */
export interface PreparedRun extends ResolvedRun {
  readonly plan: RunPlan;
}

/** Applies `--set` words and environment variables to a run file, and checks the whole. A path is loaded first. */
export async function prepareRun(
  file: RawRun | string,
  sets: readonly string[] = [],
  environment: RunEnvironment = process.env,
): Promise<PreparedRun> {
  const raw = typeof file === "string" ? await loadRunFile(file) : file;
  const { shape, ...resolved } = checkedRun(raw, sets, environment);
  const { config, recipe } = resolved;
  await checkVocabularies(config);
  const machine = readMachine(placeRun(config));
  return { ...resolved, plan: planRun(config, recipe, machine, shape, teacherShapes(config)) };
}

/** As above for a run that is evaluated and not trained: what training would need is not asked for. */
export function prepareEvaluation(
  file: RawRun,
  sets: readonly string[] = [],
  environment: RunEnvironment = process.env,
): ResolvedRun {
  return checkedRun(file, sets, environment);
}

/** A run with every key settled, and the shape of its model; nothing is asked of this machine. */
export function checkedRun(file: RawRun, sets: readonly string[], environment: RunEnvironment) {
  const resolved = resolveRun(file, sets.map(parseOverride), environment);
  checkRun(resolved.config, resolved.recipe);
  checkPackages(resolved.config);
  expectSecrets(resolved.config);
  return { ...resolved, shape: checkFiles(resolved.config) };
}

/** The memory of the device that a run is placed on. */
export function readMachine({ device, dtype }: Pick<Placement, "device" | "dtype">): Machine {
  const index = Number(/^cuda:(\d+)$/.exec(device)?.[1] ?? 0);
  const memoryBytes = device === "cpu" ? machineBytes() : cudaProperties(index).totalBytes;
  return { device, dtype, memoryBytes };
}

/** A container may allow less than the machine has. */
export function machineBytes(): number {
  const allowed = constrainedMemory();
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
}

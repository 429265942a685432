/**
 * Everything that is known of a run before it starts: from the words of the command line to a settled config and its plan.
 *
 * Nothing expensive happens here. What cannot work is refused with one error.
 */

import { totalmem } from "node:os";
import { constrainedMemory } from "node:process";
import { readAll } from "../data/read-all.ts";
import { expectSecrets } from "../errors/redact.ts";
import { cudaDeviceCount, cudaProperties } from "../torch/cuda.ts";
import { parseOverride } from "./apply-overrides.ts";
import { checkFiles } from "./check-files.ts";
import { checkPackages } from "./check-packages.ts";
import { checkEngineSplit, checkRun, checkSplit } from "./check-run.ts";
import { checkVocabularies } from "./check-vocabulary.ts";
import { checkWeights } from "./check-weights.ts";
import type { RoleShapes } from "./estimate-memory.ts";
import { type HubPathOptions, HubPaths, localRun } from "./hub-paths.ts";
import { loadRunFile, type RawRun } from "./load-run-file.ts";
import { type Placement, placeRun } from "./machine.ts";
import { type Machine, planRun, type RunPlan } from "./plan-run.ts";
import { type ResolvedRun, type RunEnvironment, resolveRun } from "./resolve-run.ts";
import type { RunConfig } from "./run-config.ts";

/** A run that is checked and may start. */
export interface PreparedRun extends ResolvedRun {
  readonly plan: RunPlan;
}

/** Applies `--set` words and environment variables to a run file, and checks the whole. A path is loaded first. */
export async function prepareRun(
  file: RawRun | string,
  sets: readonly string[] = [],
  environment: RunEnvironment = process.env,
  hub: HubPathOptions = {},
): Promise<PreparedRun> {
  const raw = typeof file === "string" ? await loadRunFile(file) : file;
  const paths = new HubPaths(environment, hub);
  const { shape, roles, ...resolved } = await checkedRun(raw, sets, environment, paths);
  const { config, recipe } = resolved;
  checkSplit(config, [shape, roles.reference, roles.critic]);
  checkEngineSplit(config, shape);
  if (paths.pending.size === 0) {
    checkWeights(config);
    await checkVocabularies(config);
  }
  const places = placeRun(config);
  const machine = { ...readMachine(places), places, numGpus: cudaDeviceCount() };
  const plan = planRun(config, recipe, machine, shape, placedRewards(roles, places));
  const found = hub.isPlan === true && paths.pending.size === 0 ? await readData(config) : [];
  return { ...resolved, plan: { ...plan, lines: [...paths.lines, ...found, ...plan.lines] } };
}

/** What a plan says about the data that a run would read at its start. */
async function readData({ data, validation, warmStart }: RunConfig): Promise<readonly string[]> {
  const parts = [
    ...(data === null ? [] : [readAll(data, "data")]),
    ...(validation?.data ? [readAll(validation.data, "validation.data")] : []),
    ...(warmStart?.type === "data" ? [readAll(warmStart.data, "warmStart.data")] : []),
  ];
  return [...new Set((await Promise.all(parts)).flat())];
}

/** Reward models where the placement puts them, in turn, or where they say themselves. */
function placedRewards(roles: RoleShapes, { rewardDevices: devices }: Placement): RoleShapes {
  if (devices === null) return roles;
  return {
    ...roles,
    rewardModels: roles.rewardModels.map((one, i) => ({ ...one, device: devices[i % devices.length]! })),
  };
}

/** As above for a run that is evaluated and not trained: what training would need is not asked for. */
export function prepareEvaluation(
  file: RawRun,
  sets: readonly string[] = [],
  environment: RunEnvironment = process.env,
  hub: HubPathOptions = {},
): Promise<ResolvedRun> {
  return checkedRun(file, sets, environment, new HubPaths(environment, hub), withoutTraining);
}

/** A run with every key settled, and the shapes of its models; nothing is asked of this machine. */
export async function checkedRun(
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment,
  paths = new HubPaths(environment),
  partOf = (config: RunConfig) => config,
) {
  const resolved = resolveRun(file, sets.map(parseOverride), environment);
  checkRun(resolved.config, resolved.recipe);
  checkPackages(resolved.config);
  expectSecrets(resolved.config);
  const config = await localRun(partOf(resolved.config), paths);
  return { ...resolved, config, ...checkFiles(config, paths.pending) };
}

/** A run whose weights come from elsewhere: the models that only training reads need not be there. */
function withoutTraining(config: RunConfig): RunConfig {
  const { model, critic } = config;
  return {
    ...config,
    model: { ...model, path: null },
    critic: { ...critic, path: null },
    reference: null,
    distillation: null,
    warmStart: null,
  };
}

/** The memory of the device that a run is placed on. */
export function readMachine({
  device,
  dtype,
  trainerDevices,
}: Pick<Placement, "device" | "dtype" | "trainerDevices">): Machine {
  const index = Number(/^cuda:(\d+)$/.exec(device)?.[1] ?? 0);
  const memoryBytes = device === "cpu" ? machineBytes() : cudaProperties(index).totalBytes;
  return { device, dtype, memoryBytes, numRanksHere: trainerDevices.filter((one) => one === device).length };
}

/** A container may allow less than the machine has. */
export function machineBytes(): number {
  const allowed = constrainedMemory();
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
}

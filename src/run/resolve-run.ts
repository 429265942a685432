/**
 * From what was written to a settled run: file, environment variables and `--set`, joined, checked, defaults filled in.
 *
 * Throws one error about one key, before anything expensive starts.
 */
import type { z } from "zod";
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { parseOptions } from "../errors/parse-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { readLaunch } from "../machines/launch.ts";
import { applyOverrides, type Override } from "./apply-overrides.ts";
import { leavesOf } from "./leaves-of.ts";
import type { RawRun } from "./load-run-file.ts";
import { expectCurrentKeys } from "./renamed-keys.ts";
import { resolveParts } from "./resolve-parts.ts";
import { type RunConfig, runConfig } from "./run-config.ts";
import { defaultRunsFolder } from "./runs-folder.ts";

/** Where the value of a key comes from. */
export type Origin = "default" | "file" | "--set" | "REROLL_DEVICE" | "REROLL_HOME" | "launcher";

/** The origin of each written key by its dotted path; a key below one has the same, and all others are defaults. */
export type Origins = ReadonlyMap<string, Origin>;

/** A run with every key settled, and why each is what it is. */
export interface ResolvedRun {
  readonly config: RunConfig;
  /** The algorithm that the config names, put together. */
  readonly recipe: Recipe;
  readonly origins: Origins;
}

/** Environment variables; REROLL_DEVICE, REROLL_HOME and those of launchers are read. */
export type RunEnvironment = Readonly<Record<string, string | undefined>>;

/** The file wins over variables, and `--set` over both. */
export function resolveRun(
  file: RawRun,
  overrides: readonly Override[] = [],
  environment: RunEnvironment = {},
): ResolvedRun {
  const { written, origins } = joinRun(runConfig, file, overrides, overridesOf(environment));
  const resolved = resolveParts(parseOptions(runConfig, written, ""));
  expectLaunched(resolved.config.training, environment);
  return { ...resolved, origins };
}

/** Throws where the run file has other ranks than a launcher has started. */
export function expectLaunched(
  { ranks, strategy }: Pick<RunConfig["training"], "ranks" | "strategy">,
  environment: RunEnvironment,
): void {
  const launch = readLaunch(environment);
  if (launch === null || (ranks === launch.worldSize && strategy.in === "machines")) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `training has ${ranks} ranks in ${JSON.stringify(strategy.in)}, and the run has ${launch.worldSize} processes, each for one rank. ` +
      `Leave training.ranks and training.strategy.in out, or set them to ${launch.worldSize} and "machines".`,
  );
}

/** A value from an environment variable. */
interface Variable {
  readonly override: Override;
  readonly origin: Origin;
}

/** What was written, joined, and where each key of it comes from. Only keys of old versions are refused here. */
export function joinRun(
  schema: z.ZodObject,
  file: RawRun,
  overrides: readonly Override[],
  variables: readonly Variable[],
): { readonly written: RawRun; readonly origins: Origins } {
  const base = applyOverrides(
    {},
    variables.map(({ override }) => override),
    schema,
  );
  const written = applyOverrides(mergeRuns(base, file), overrides, schema);
  expectCurrentKeys(written);
  const origins = new Map<string, Origin>([
    ...variables.map(({ override, origin }) => [override.path.join("."), origin] as const),
    ...leavesOf(file).map(({ key }) => [key, "file"] as const),
    ...overrides.map(({ path }) => [path.join("."), "--set"] as const),
  ]);
  return { written, origins };
}

/** The values that environment variables give. */
export function overridesOf(environment: RunEnvironment): Variable[] {
  const { REROLL_DEVICE: device, REROLL_HOME: home } = environment;
  const launch = readLaunch(environment);
  const launched = { ranks: launch?.worldSize, strategy: { in: "machines" } };
  return [
    ...(launch !== null
      ? leavesOf({ training: launched }).map(({ key, value }) => ({
          override: { path: key.split("."), value },
          origin: "launcher" as const,
        }))
      : []),
    ...(device ? [{ override: { path: ["device"], value: device }, origin: "REROLL_DEVICE" as const }] : []),
    ...(home
      ? [
          {
            override: { path: ["tracking", "folder"], value: defaultRunsFolder(environment) },
            origin: "REROLL_HOME" as const,
          },
        ]
      : []),
  ];
}

function mergeRuns(base: RawRun, over: RawRun): RawRun {
  const merged = Object.entries(over).map(([key, value]) => {
    const below = base[key];
    return [key, isPlain(below) && isPlain(value) ? mergeRuns(below as RawRun, value as RawRun) : value] as const;
  });
  return { ...base, ...Object.fromEntries(merged) };
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

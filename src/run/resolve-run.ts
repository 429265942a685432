/**
 * From what was written to a settled run: file, environment variables and `--set`, joined, checked, defaults filled in.
 *
 * Throws one error about one key, before anything expensive starts.
 */
import type { z } from "zod";
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { parseOptions } from "../errors/parse-options.ts";
import { applyOverrides, type Override } from "./apply-overrides.ts";
import type { RawRun } from "./load-run-file.ts";
import { expectCurrentKeys } from "./renamed-keys.ts";
import { resolveParts } from "./resolve-parts.ts";
import { type RunConfig, runConfig } from "./run-config.ts";
import { defaultRunsFolder } from "./runs-folder.ts";

/** Where the value of a key comes from. */
export type Origin = "default" | "file" | "--set" | "REROLL_DEVICE" | "REROLL_HOME";

/** The origin of each written key by its dotted path; a key below one has the same, and all others are defaults. */
export type Origins = ReadonlyMap<string, Origin>;

/** A run with every key settled, and why each is what it is. */
export interface ResolvedRun {
  readonly config: RunConfig;
  /** The algorithm that the config names, put together. */
  readonly recipe: Recipe;
  readonly origins: Origins;
}

/** Environment variables; only REROLL_DEVICE and REROLL_HOME are read. */
export type RunEnvironment = Readonly<Record<string, string | undefined>>;

/** The file wins over variables, and `--set` over both. */
export function resolveRun(
  file: RawRun,
  overrides: readonly Override[] = [],
  environment: RunEnvironment = {},
): ResolvedRun {
  const { written, origins } = joinRun(runConfig, file, overrides, overridesOf(environment));
  return { ...resolveParts(parseOptions(runConfig, written, "")), origins };
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

/** A key with its value. */
interface Leaf {
  readonly key: string;
  readonly value: unknown;
}

/** Every value that is no object, with its dotted path. Lists are values, and so are objects that hold functions. */
export function leavesOf(value: object, prefix = ""): Leaf[] {
  return Object.entries(value).flatMap(([name, inner]) => {
    const key = `${prefix}${name}`;
    return isPlain(inner) && Object.keys(inner).length > 0 ? leavesOf(inner, `${key}.`) : [{ key, value: inner }];
  });
}

/** The values that environment variables give. */
export function overridesOf(environment: RunEnvironment): Variable[] {
  const { REROLL_DEVICE: device, REROLL_HOME: home } = environment;
  return [
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

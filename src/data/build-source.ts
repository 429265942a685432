/** From the `data` part of a run file to a source. */

import { parseOptions } from "../errors/parse-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { deriveSeed } from "../random/random.ts";
import { curriculum } from "./curriculum.ts";
import { type DataChoice, type DataOptions, dataOptions } from "./data-options.ts";
import { datasetSource } from "./dataset-source.ts";
import { envSource } from "./env-source.ts";
import { loadPrompts, type PromptSet, promptsFromRows } from "./load-prompts.ts";
import { mixSources } from "./mix-sources.ts";
import { openDataset } from "./open-dataset.ts";
import type { PromptSource } from "./prompt-source.ts";

/** What sources are built from besides their options. */
interface SourceParts {
  readonly seed: number;
  /** The environments of the run by name; an `EnvFactory` fits. */
  readonly envs?: Readonly<Record<string, PromptMaker>>;
}

/** Makes prompts by seed, where it makes any. */
export interface PromptMaker {
  readonly makePrompt?: (seed: number) => Prompt | Promise<Prompt>;
}

/** A source, and what is to be said about it. */
interface BuiltSource {
  readonly source: PromptSource;
  /** What was found and chosen, a line for each set: worth showing at the start of a run. */
  readonly statements: readonly string[];
}

/** Checks a choice and builds its source. `path` is where the choice stands in the run file; errors start with it. */
export async function buildSource(choice: DataChoice, parts: SourceParts, path = "data"): Promise<BuiltSource> {
  return build(parseOptions(dataOptions, choice, path), parts, path);
}

async function build(options: DataOptions, parts: SourceParts, path: string): Promise<BuiltSource> {
  switch (options.type) {
    case "jsonl":
    case "json":
    case "parquet":
      return fromSet(await loadPrompts(options.type, options.path, loadOptions(options)), options, parts);
    case "dataset":
      return fromDataset(options, parts);
    case "rows":
      return fromSet(await promptsFromRows(options.rows, options.name ?? "rows", loadOptions(options)), options, parts);
    case "env":
      return fromEnv(options, parts, path);
    case "mix":
      return fromMix(options, parts, path);
    case "curriculum": {
      const { source, statements } = await build(options.source, parts, `${path}.source`);
      return { source: curriculum(source, { ...options, seed: deriveSeed(parts.seed, "curriculum") }), statements };
    }
  }
}

type OptionsOf<Type extends DataOptions["type"]> = Extract<DataOptions, { type: Type }>;
type SetOptions = OptionsOf<"jsonl" | "json" | "parquet" | "rows">;

async function fromDataset(options: OptionsOf<"dataset">, parts: SourceParts): Promise<BuiltSource> {
  const { type: _, split, subset, ...others } = options;
  const isNamed = typeof split === "string";
  const { format, files } = await openDataset(options.path, { subset, split: isNamed ? split : "train" });
  const set = { ...others, type: format, path: [...files], ...(!isNamed && { split }) };
  return fromSet(await loadPrompts(format, files, { name: options.path, ...loadOptions(set) }), set, parts);
}

/** Run files name switches by what is done, the rest of the code by what is the case. */
function loadOptions({ dropDuplicates, skipIncomplete, ...options }: SetOptions) {
  return { ...options, dropsDuplicates: dropDuplicates, skipsIncomplete: skipIncomplete };
}

function fromSet(set: PromptSet, { epochs, shuffle }: SetOptions, { seed }: SourceParts): BuiltSource {
  const source = datasetSource({ name: set.name, prompts: set.prompts, seed, epochs, isShuffled: shuffle });
  return { source, statements: [set.statement] };
}

function fromEnv(options: OptionsOf<"env">, { seed, envs = {} }: SourceParts, path: string): BuiltSource {
  const { env, part, numPrompts, epochs, shuffle } = options;
  const makePrompt = Object.hasOwn(envs, env) ? envs[env]?.makePrompt : undefined;
  if (makePrompt === undefined) throw noPrompts(env, envs, path);
  const source = envSource({ name: env, makePrompt, part, numPrompts, seed, epochs, isShuffled: shuffle });
  return { source, statements: [`${env}: ${numPrompts ?? "endless"} ${part} prompts made by the environment`] };
}

function noPrompts(env: string, envs: NonNullable<SourceParts["envs"]>, path: string): RerollError {
  const able = Object.keys(envs).filter((name) => envs[name]?.makePrompt !== undefined);
  const known = `Environments that do: ${able.join(", ") || "none"}.`;
  return new RerollError(
    "INVALID_OPTION",
    Object.hasOwn(envs, env)
      ? `${path}.env names ${JSON.stringify(env)}, which makes no prompts of its own. ${known} Or take its prompts from a file.`
      : `${path}.env names ${JSON.stringify(env)}, which is not an environment of this run. ${known}`,
    { env, able },
  );
}

async function fromMix(options: OptionsOf<"mix">, parts: SourceParts, path: string): Promise<BuiltSource> {
  const built = await Promise.all(
    options.parts.map(({ source }, i) =>
      build(source, { ...parts, seed: deriveSeed(parts.seed, "part", i) }, `${path}.parts.${i}.source`),
    ),
  );
  const source = mixSources(
    built.map(({ source }, i) => ({ source, ratio: options.parts[i]!.ratio })),
    { whenPartEnds: options.whenPartEnds },
  );
  return { source, statements: built.flatMap(({ statements }) => statements) };
}

/** Which weights a path means: a model folder, a checkpoint, or the best or latest checkpoint of a run. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { parseHubName } from "../hub/hub-name.ts";
import type { HubPaths } from "./hub-paths.ts";
import { defaultRunsFolder } from "./runs-folder.ts";

/** Weights on disk. */
export interface FoundModel {
  /** In Hugging Face layout, or with adapters alone as PEFT stores them. */
  readonly folder: string;
  /** Whether the folder holds adapters, which need their base model. */
  readonly isAdapter: boolean;
  /** The run it belongs to; null for a folder from elsewhere. */
  readonly runFolder: string | null;
  /** What it is in words, such as "checkpoint step-000040 of runs/a". */
  readonly name: string;
}

/** The same, with a model of the Hub fetched where the path is the name of one. */
export async function openModel(path: string, paths: HubPaths, step?: number): Promise<FoundModel> {
  const local = await paths.model(path, "<model>");
  return local === path ? findModel(path, step) : { ...findModel(local, step), name: path };
}

/** `step` chooses a checkpoint of a run. Default: that of the best validation, else the latest. */
export function findModel(path: string, step?: number): FoundModel {
  const folder = resolve(path);
  if (!existsSync(folder))
    throw new RerollError(
      "CHECKPOINT_NOT_FOUND",
      `${path} does not exist. Check the path.${runHint(path)}${parseHubName(path) === null ? "" : ` If the Hub is meant, write hf://${path}.`}`,
      { folder },
    );
  if (existsSync(join(folder, "checkpoints"))) return ofCheckpoint(chooseCheckpoint(path, folder, step), folder);
  if (existsSync(join(folder, "model")) && existsSync(join(folder, "loop.json")))
    return ofCheckpoint(folder, dirname(dirname(folder)));
  if (folder.endsWith(".gguf") || holdsWeights(folder)) return described(folder, null, path);
  throw new RerollError(
    "CHECKPOINT_NOT_FOUND",
    `${path} holds no model: there is neither config.json, adapter_config.json, nor a folder of checkpoints. Give a model folder, a checkpoint, or a run folder.`,
    { folder },
  );
}

/** Said where a path is the name of a run. */
function runHint(path: string): string {
  const run = join(defaultRunsFolder(), path);
  return existsSync(run) ? ` Did you mean the run ${run}?` : "";
}

/** Throws for weights that have no words: the policy of a control run. */
export function expectLanguageModel({ folder, name }: FoundModel): void {
  if (!existsSync(join(folder, "policy.json"))) return;
  throw new RerollError(
    "INVALID_OPTION",
    `${name} holds the policy of a control run, which has no language to reply in: "reroll eval" with its --run-file measures it, "reroll export" copies its weights, and "reroll dashboard" shows its run.`,
    { folder },
  );
}

/** The folder of the model that a run started from: that of its adapters' base. */
export function baseOfRun(runFolder: string): string | null {
  const written = join(runFolder, "model");
  if (existsSync(join(written, "config.json"))) return written;
  const { path } = modelOfRun(runFolder);
  return typeof path === "string" ? path : null;
}

/** The form in which a run held the base of its adapters, such as "nf4"; null where it held it whole. */
export function quantizationOfRun(runFolder: string): string | null {
  const { quantization } = modelOfRun(runFolder);
  return typeof quantization === "string" ? quantization : null;
}

function modelOfRun(runFolder: string): { readonly path?: unknown; readonly quantization?: unknown } {
  try {
    return JSON.parse(readFileSync(join(runFolder, "config.json"), "utf8")).model ?? {};
  } catch {
    // A run folder that was copied in part: the caller says what to do without it.
    return {};
  }
}

/** The model that adapters name as their base, as a folder or as its name on a hub. */
export function baseOfAdapters(folder: string): string | null {
  try {
    const config: { base_model_name_or_path?: unknown } = JSON.parse(
      readFileSync(join(folder, "adapter_config.json"), "utf8"),
    );
    return typeof config.base_model_name_or_path === "string" ? config.base_model_name_or_path : null;
  } catch {
    // Loading the adapters says what is wrong with the file.
    return null;
  }
}

function chooseCheckpoint(path: string, folder: string, step: number | undefined): string {
  const root = join(folder, "checkpoints");
  const names = readdirSync(root)
    .filter((name) => /^step-\d+$/.test(name))
    .sort();
  const latest = names.at(-1);
  if (latest === undefined) {
    throw new RerollError(
      "CHECKPOINT_NOT_FOUND",
      `The run ${path} has no checkpoint yet. Set checkpoint.every, or let it end.`,
      { folder },
    );
  }
  const wanted = step ?? bestStep(join(root, latest, "loop.json"));
  const found = names.find((name) => Number(name.slice("step-".length)) === wanted);
  if (found === undefined && step !== undefined) {
    throw new RerollError(
      "CHECKPOINT_NOT_FOUND",
      `The run ${path} has no checkpoint of step ${step}. It has: ${names.join(", ")}.`,
      { step },
    );
  }
  return join(root, found ?? latest);
}

function bestStep(file: string): number | null {
  const { best }: { best?: { step: number } | null } = JSON.parse(readFileSync(file, "utf8"));
  return best?.step ?? null;
}

function ofCheckpoint(folder: string, runFolder: string): FoundModel {
  return described(join(folder, "model"), runFolder, folder);
}

function described(folder: string, runFolder: string | null, name: string): FoundModel {
  return { folder, runFolder, name, isAdapter: existsSync(join(folder, "adapter_config.json")) };
}

function holdsWeights(folder: string): boolean {
  return ["config.json", "adapter_config.json"].some((name) => existsSync(join(folder, name)));
}

/**
 * Weights of a run as a folder that every other tool loads.
 *
 * In: a run, a checkpoint or a model folder. Out: Hugging Face layout with its tokenizer; adapters stay apart in PEFT's layout
 * unless they are merged into their base. Refuses to write into a folder that holds anything.
 */
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { snapshotOrigin } from "../hub/hub-cache.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { mergeLora } from "../models/causal-lm/lora.ts";
import { loadLora } from "../models/causal-lm/lora-files.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import {
  baseOfAdapters,
  baseOfRun,
  expectLanguageModel,
  type FoundModel,
  openModel,
  quantizationOfRun,
} from "./find-model.ts";
import { HubPaths } from "./hub-paths.ts";

/** What to export, and how. */
export interface ExportOptions {
  readonly from: string;
  readonly out: string;
  /** Add adapters to their base. */
  readonly merge: boolean;
  /** The base of adapters. Default: the model that the run started from. */
  readonly base?: string;
  /** A checkpoint of a run. Default: the best, else the latest. */
  readonly step?: number;
  /** Where names on the Hub are looked up. Default: as the environment says. */
  readonly paths?: HubPaths;
}

/** Says what was written. */
export async function exportModel({
  from,
  out,
  merge,
  base,
  step,
  paths = new HubPaths(),
}: ExportOptions): Promise<string> {
  const found = await openModel(from, paths, step);
  if (existsSync(out) && readdirSync(out).length > 0)
    throw new RerollError("FILE_EXISTS", `--out ${out} is not empty. Name a new folder.`, { out });
  expectAdapterFor("--merge", merge || undefined, found);
  if (merge) {
    await writeMerged(found, await openBase(found, paths, base), out);
    return `Wrote ${found.name}, merged into its base, to ${out}${quantizationNote(found)}`;
  }
  if (found.folder.endsWith(".gguf")) {
    await writeUnpacked(found.folder, out);
    return `Wrote ${found.name} to ${out}, with weights in float32`;
  }
  mkdirSync(out, { recursive: true });
  // Files of the Hub's cache are links.
  cpSync(found.folder, out, { recursive: true, dereference: true });
  return found.isAdapter
    ? `Wrote the adapters of ${found.name} to ${out}. They need their base; add --merge for a whole model.`
    : `Wrote ${found.name} to ${out}`;
}

/** What a merged model is not, where the run computed with fewer bits than the base has. */
function quantizationNote({ runFolder }: FoundModel): string {
  const quantization = runFolder === null ? null : quantizationOfRun(runFolder);
  return quantization === null
    ? ""
    : `. The run held the base in ${quantization}; this is the base as its files have it, so scores differ from the run's by what ${quantization} took away`;
}

/** A folder of the whole model: that of the weights, or with adapters a merged copy in `scratch`. */
export async function wholeModel(found: FoundModel, scratch: string, paths: HubPaths, base?: string): Promise<string> {
  expectLanguageModel(found);
  expectAdapterFor("--base", base, found);
  if (!found.isAdapter) return found.folder;
  await writeMerged(found, await openBase(found, paths, base), scratch);
  return scratch;
}

function expectAdapterFor(flag: string, given: unknown, { isAdapter, name }: FoundModel): void {
  if (given === undefined || isAdapter) return;
  throw new RerollError(
    "INVALID_OPTION",
    `${flag} is for adapters, and ${name} holds a whole model. Leave ${flag} out.`,
  );
}

/** The values of a GGUF file as they are; what is quantized there takes more room here. */
async function writeUnpacked(file: string, out: string): Promise<void> {
  const { files } = await loadTokenizer(file);
  const model = loadCausalLm(file, { dtype: "float32" });
  try {
    saveCausalLm(model, out, { files });
  } finally {
    model.dispose();
  }
}

async function writeMerged({ folder }: FoundModel, base: string, out: string): Promise<void> {
  const { files } = await loadTokenizer(base);
  const model = loadCausalLm(base);
  try {
    loadLora(model, folder);
    mergeLora(model);
    saveCausalLm(model, out, { files });
  } finally {
    model.dispose();
  }
}

/** The folder of the model that adapters belong to: the one given, that of their run, or the one that they name themselves. */
export async function openBase(
  { runFolder, folder, name }: FoundModel,
  paths: HubPaths,
  base?: string,
): Promise<string> {
  if (base !== undefined) return paths.model(base, "--base");
  const named = (runFolder === null ? null : baseOfRun(runFolder)) ?? baseOfAdapters(folder);
  const local = named === null ? null : await paths.model(hubNameAgain(named), `The base of ${name}`);
  if (local !== null && existsSync(local)) return local;
  throw new RerollError(
    "BASE_NOT_FOUND",
    `${name} holds adapters, and the model they belong to ${named === null ? "is not recorded" : `is not at ${named}`}. Give its folder with --base.`,
  );
}

/** A folder of a cache that is gone, or of another machine's, is fetched by its name again. */
function hubNameAgain(path: string): string {
  const origin = existsSync(path) ? null : snapshotOrigin(path);
  return origin === null ? path : `hf://${origin.repo}@${origin.sha}`;
}

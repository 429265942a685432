/**
 * Weights of a run as a folder that every other tool loads.
 *
 * In: a run, a checkpoint or a model folder. Out: Hugging Face layout with its tokenizer; adapters stay apart in PEFT's layout
 * unless they are merged into their base. Refuses to write into a folder that holds anything.
 */
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { mergeLora } from "../models/causal-lm/lora.ts";
import { loadLora } from "../models/causal-lm/lora-files.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { baseOfAdapters, baseOfRun, expectLanguageModel, type FoundModel, findModel } from "./find-model.ts";

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
}

/** Says what was written. */
export async function exportModel({ from, out, merge, base, step }: ExportOptions): Promise<string> {
  const found = findModel(from, step);
  if (existsSync(out) && readdirSync(out).length > 0)
    throw new RerollError("FILE_EXISTS", `--out ${out} is not empty. Name a new folder.`, { out });
  expectAdapterFor("--merge", merge || undefined, found);
  if (merge) {
    await writeMerged(found, base ?? baseOf(found), out);
    return `Wrote ${found.name}, merged into its base, to ${out}`;
  }
  mkdirSync(out, { recursive: true });
  cpSync(found.folder, out, { recursive: true });
  return found.isAdapter
    ? `Wrote the adapters of ${found.name} to ${out}. They need their base; add --merge for a whole model.`
    : `Wrote ${found.name} to ${out}`;
}

/** A folder of the whole model: that of the weights, or with adapters a merged copy in `scratch`. */
export async function wholeModel(found: FoundModel, scratch: string, base?: string): Promise<string> {
  expectLanguageModel(found);
  expectAdapterFor("--base", base, found);
  if (!found.isAdapter) return found.folder;
  await writeMerged(found, base ?? baseOf(found), scratch);
  return scratch;
}

function expectAdapterFor(flag: string, given: unknown, { isAdapter, name }: FoundModel): void {
  if (given === undefined || isAdapter) return;
  throw new RerollError(
    "INVALID_OPTION",
    `${flag} is for adapters, and ${name} holds a whole model. Leave ${flag} out.`,
  );
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

/** The folder of the model that adapters belong to: that of their run, else the one that they name themselves. */
export function baseOf({ runFolder, folder, name }: FoundModel): string {
  const named = (runFolder === null ? null : baseOfRun(runFolder)) ?? baseOfAdapters(folder);
  if (named !== null && existsSync(named)) return named;
  throw new RerollError(
    "BASE_NOT_FOUND",
    `${name} holds adapters, and the model they belong to ${named === null ? "is not recorded" : `is not at ${named}`}. Give its folder with --base.`,
  );
}

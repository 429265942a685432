/** The model that a run starts from, as a folder: the one that is named, or a small one made for its environments. */
import { join } from "node:path";
import { byteTokenizerFiles } from "../chat/tokenizer/byte-tokenizer.ts";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { createTokenizer, type Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { wordTokenizerFiles } from "../chat/tokenizer/word-tokenizer.ts";
import type { EnvFactory } from "../envs/text-env.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import type { RunConfig } from "./run-config.ts";

/** A multiple of this is a good size for matrices; ids beyond the vocabulary are never sampled more than they are trained. */
const VOCABULARY_STEP = 16;

const QUIET_MS = 1000;

/**
 * The folder of the first weights. A preset is written to `<run folder>/model`; the same seed writes the same bytes.
 *
 * @param report told what is waited for, where that takes more than a second
 */
export async function prepareModel(
  { model, seed }: Pick<RunConfig, "model" | "seed">,
  envs: readonly EnvFactory[],
  runFolder: string,
  report: (text: string) => void = () => {},
): Promise<string> {
  if (model.path !== null && model.preset === null) return model.path;
  if (model.preset === null || model.path !== null) {
    throw new RerollError("INVALID_OPTION", "model needs one of path and preset, and not both.");
  }
  const waiting = setTimeout(
    () => report("Waiting for servers of environments to tell their words, for up to three minutes each."),
    QUIET_MS,
  );
  const files = await presetTokenizer(envs).finally(() => clearTimeout(waiting));
  const { vocabularySize } = createTokenizer(files, "model.preset");
  const folder = join(runFolder, "model");
  const created = createPreset(model.preset, Math.ceil(vocabularySize / VOCABULARY_STEP) * VOCABULARY_STEP, seed);
  saveCausalLm(created, folder, { files });
  created.dispose();
  return folder;
}

/** The tokenizer of that model, which can be known before there is a folder. */
export async function modelTokenizer(
  { path }: Pick<RunConfig["model"], "path">,
  envs: readonly EnvFactory[],
): Promise<Tokenizer> {
  return path === null ? createTokenizer(await presetTokenizer(envs), "model.preset") : loadTokenizer(path);
}

/** Whole words where all environments say theirs, else bytes. */
async function presetTokenizer(envs: readonly EnvFactory[]): Promise<ReadonlyMap<string, Uint8Array>> {
  const asked = await Promise.all(envs.map(({ words, fetchWords }) => words ?? fetchWords?.()));
  const lists = asked.filter((list) => list !== undefined && list !== null);
  if (lists.length === 0 || lists.length < envs.length) return byteTokenizerFiles();
  const words = [...new Set(lists.flatMap((list) => list.words))];
  return wordTokenizerFiles({ words, endWords: [...new Set(lists.flatMap((list) => list.endWords))] });
}

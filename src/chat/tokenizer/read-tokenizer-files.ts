/** The files that make up a tokenizer, read from a model folder. */

import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";

/**
 * Reads every tokenizer file that the folder has, by path in the folder. Which of them are required is decided when they
 * are parsed; here only a folder that cannot be read is an error.
 */
export async function readTokenizerFiles(folder: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const names = await listFolder(folder);
  const templates = names.includes(TEMPLATE_FOLDER) ? await listFolder(path.join(folder, TEMPLATE_FOLDER)) : [];
  const files = [
    ...names.filter((name) => FILE_NAMES.has(name)),
    ...templates.filter((name) => name.endsWith(".jinja")).map((name) => `${TEMPLATE_FOLDER}/${name}`),
  ].sort();
  const contents = await Promise.all(files.map((file) => readFile(path.join(folder, file))));
  return new Map(contents.map((content, index) => [files[index] ?? "", content]));
}

const FILE_NAMES: ReadonlySet<string> = new Set([
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "generation_config.json",
]);

const TEMPLATE_FOLDER = "additional_chat_templates";

async function listFolder(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (cause) {
    throw new RerollError(
      "TOKENIZER_MISSING",
      `Tokenizer folder ${folder} cannot be read: ${String(cause)}. Give a folder with tokenizer.json and tokenizer_config.json.`,
      { folder },
      { cause },
    );
  }
}

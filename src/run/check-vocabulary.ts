/** Whether a model can read the tokens of another one, as teachers, references and critics do: both must mean the same by every id. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { buildEnv } from "../envs/catalog.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { modelTokenizer } from "./prepare-model.ts";
import type { RunConfig } from "./run-config.ts";

/** Throws where the run's reference, critic or a teacher has a vocabulary of its own. Servers are asked when they are opened. */
export async function checkVocabularies({ model, envs, reference, critic, distillation }: RunConfig): Promise<void> {
  const frozen = Object.entries({ reference, "critic.path": critic.path }).flatMap(([key, folder]) =>
    folder !== null && (folder.endsWith(".gguf") || existsSync(join(folder, "tokenizer.json")))
      ? [{ key, folder }]
      : [],
  );
  const teachers = Object.entries(distillation?.teachers ?? {}).flatMap(([name, teacher]) =>
    teacher.type === "folder" ? [{ key: `distillation.teachers.${name}.path`, folder: teacher.path }] : [],
  );
  const readers = [...frozen, ...teachers];
  if (readers.length === 0) return;
  const own = await modelTokenizer(model, Object.values(envs).map(buildEnv));
  for (const { key, folder } of readers) expectSameVocabulary(key, await loadTokenizer(folder), own);
}

/**
 * Throws where the vocabularies or the special tokens differ. Rows of an embedding beyond the vocabulary are padding, and may be any
 * number.
 *
 * @param key how the run file calls the reader
 */
export function expectSameVocabulary(key: string, reader: Tokenizer, model: Tokenizer): void {
  const size = Math.max(reader.vocabularySize, model.vocabularySize);
  for (let id = 0; id < size; id++) {
    const [theirs, ours] = [reader.tokenOf(id), model.tokenOf(id)];
    if (theirs !== ours)
      throw mismatch(key, reader, `token ${id} is ${shown(theirs)} there and ${shown(ours)} in the model`);
    const isSpecial = reader.specialIds.has(id);
    if (isSpecial !== model.specialIds.has(id)) {
      const [there, here] = isSpecial ? ["a special token", "none"] : ["no special token", "one"];
      throw mismatch(key, reader, `token ${id}, ${shown(ours)}, is ${there} there and ${here} in the model`);
    }
  }
}

function shown(token: string | undefined): string {
  return token === undefined ? "missing" : JSON.stringify(token);
}

function mismatch(key: string, { name }: Tokenizer, what: string): RerollError {
  return new RerollError(
    "VOCABULARY_MISMATCH",
    `${key} has another vocabulary than the model: ${what}. It reads the very tokens that the model writes, so both need the same tokenizer. ` +
      "Take one of the same family, or one that was trained from this model.",
    { key, name },
  );
}

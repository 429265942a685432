/** Whether two models read the same tokens: a reference and a critic are shown those that the policy wrote. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";

/** Throws where both folders have a tokenizer and their vocabularies differ. `key` names the second one in the run file. */
export function expectSameVocabulary(policy: string, other: string, key: string): void {
  const [own, others] = [policy, other].map(readVocabulary);
  if (own === null || others === null || own === others) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `${key} names ${JSON.stringify(other)}, whose vocabulary is not that of ${JSON.stringify(policy)}: it would read the policy's tokens as others. ` +
      "Take a model of the same family, or one that was trained from this one. Only a reward may have a vocabulary of its own.",
    { key },
  );
}

/** Tokens and their ids as one text, or null for a folder without tokenizer.json. */
function readVocabulary(folder: string): string | null {
  const path = join(folder, "tokenizer.json");
  if (!existsSync(path)) return null;
  const { model, added_tokens: added = [] } = JSON.parse(readFileSync(path, "utf8")) as {
    readonly model?: { readonly vocab?: unknown };
    readonly added_tokens?: readonly { readonly id: number; readonly content: string }[];
  };
  return JSON.stringify([model?.vocab, added.map(({ id, content }) => [id, content])]);
}

/**
 * A vocabulary as a grammar sees it: the bytes that each token adds to a text.
 *
 * Spelled in the alphabet of byte-level tokenizers, whatever kind this one is, since texts cannot hold single bytes. Special tokens and
 * ids without a token are empty: no grammar allows them.
 */
import { byteLevelAlphabet } from "../../chat/tokenizer/decoding/byte-level-stage.ts";
import { spelledBytes } from "../../chat/tokenizer/spelled-bytes.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";

export function spellVocabulary(tokenizer: Tokenizer): readonly string[] {
  const alphabet = byteLevelAlphabet();
  const spell = (bytes: Iterable<number>) => Array.from(bytes, (byte) => alphabet[byte]).join("");
  const isSilent = (id: number) => tokenizer.specialIds.has(id) || tokenizer.stopIds.includes(id);
  return Array.from({ length: tokenizer.vocabularySize }, (_, id) =>
    isSilent(id) || tokenizer.tokenOf(id) === undefined ? "" : spell(bytesOf(tokenizer, id)),
  );
}

/** As the second of two: some tokenizers take a space away from the first. */
function bytesOf(tokenizer: Tokenizer, id: number): Iterable<number> {
  const both = tokenizer.decode([id, id]);
  if (!both.includes("\ufffd")) return Buffer.from(both.slice(tokenizer.decode([id]).length));
  return spelledBytes(tokenizer.tokenOf(id) ?? "") ?? [];
}

/** A single token as OpenAI's log-probs show it: its text, and its bytes where it is only a part of a character. */
import { byteLevelAlphabet } from "../../chat/tokenizer/decoding/byte-level-stage.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";

interface TokenText {
  readonly token: string;
  readonly bytes: readonly number[];
}

/** Ids outside the vocabulary have no text and no bytes. */
export function tokenText(tokenizer: Tokenizer, tokenId: number): TokenText {
  const spelled = tokenizer.tokenOf(tokenId);
  if (spelled === undefined) return { token: "", bytes: [] };
  const text = tokenizer.decode([tokenId]);
  const bytes = (text.includes("\ufffd") ? spelledBytes(spelled) : undefined) ?? [...Buffer.from(text)];
  return { token: text, bytes };
}

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;
const byteOf = new Map(byteLevelAlphabet().map((character, byte) => [character, byte]));

function spelledBytes(spelled: string): readonly number[] | undefined {
  const single = BYTE_TOKEN.exec(spelled)?.[1];
  if (single !== undefined) return [Number.parseInt(single, 16)];
  const bytes = Array.from(spelled, (character) => byteOf.get(character));
  return bytes.every((byte) => byte !== undefined) ? bytes : undefined;
}

/** A single token as OpenAI's log-probs show it: its text, and its bytes where it is only a part of a character. */
import { spelledBytes } from "../../chat/tokenizer/spelled-bytes.ts";
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

/** The bytes of a token that is only a part of a character, from how its vocabulary spells it. */
import { byteLevelAlphabet } from "./decoding/byte-level-stage.ts";

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;
const byteOf = new Map(byteLevelAlphabet().map((character, byte) => [character, byte]));

/** Undefined where the spelling is not one of bytes. */
export function spelledBytes(spelled: string): readonly number[] | undefined {
  const single = BYTE_TOKEN.exec(spelled)?.[1];
  if (single !== undefined) return [Number.parseInt(single, 16)];
  const bytes = Array.from(spelled, (character) => byteOf.get(character));
  return bytes.every((byte) => byte !== undefined) ? bytes : undefined;
}

/**
 * Encoding of prompts without holding up the event loop.
 *
 * In: text. Out: the same ids as `tokenizer.encode`. Long text is encoded in pieces that are cut where no token can reach
 * across (before special tokens, and between words), with a turn of the event loop after each. Pieces are remembered:
 * the samples of a group, and the turns of an episode, share most of their text. A long piece that cannot be cut is
 * counted in fragments first, so that text which cannot fit is not encoded as a whole.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { joinIds } from "../flow/join-arrays.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";

/** The length of a piece: a few milliseconds of work. */
const PIECE_CHARACTERS = 4096;
const MAX_REMEMBERED_CHARACTERS = 8_000_000;

export class PromptEncoder {
  readonly #tokenizer: Tokenizer;
  readonly #cut: (text: string) => readonly string[];
  /** Insertion order is the order of last use. */
  readonly #remembered = new Map<string, Int32Array>();
  #rememberedCharacters = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    this.#cut = planCuts(tokenizer);
  }

  /** Stops early once there are more than `maxTokens`: the result is then too long, and not complete. */
  async encode(text: string, maxTokens = Infinity): Promise<Int32Array> {
    const pieces: Int32Array[] = [];
    let numTokens = 0;
    let sinceTurn = 0;
    for (const piece of this.#cut(text)) {
      const known = this.#remembered.get(piece);
      const tooMany = known === undefined ? await this.#findTooMany(piece, maxTokens - numTokens) : undefined;
      if (tooMany !== undefined) return joinIds([...pieces, ...tooMany]);
      const ids = known ?? this.#tokenizer.encode(piece);
      this.#remember(known === undefined ? unshared(piece) : piece, ids);
      pieces.push(ids);
      numTokens += ids.length;
      if (numTokens > maxTokens) break;
      if (known === undefined) sinceTurn += piece.length;
      if (sinceTurn < PIECE_CHARACTERS) continue;
      await nextTurn();
      sinceTurn = 0;
    }
    return joinIds(pieces);
  }

  /**
   * The tokens of fragments of a long piece, when there are far too many; else undefined. A cut changes the tokens around
   * it and no others, so fragments have a few more tokens than the whole; with twice the limit there is no doubt.
   */
  async #findTooMany(piece: string, maxTokens: number): Promise<readonly Int32Array[] | undefined> {
    if (piece.length <= 4 * PIECE_CHARACTERS || maxTokens === Infinity) return undefined;
    const fragments: Int32Array[] = [];
    let numTokens = 0;
    for (let at = 0; at < piece.length; at += PIECE_CHARACTERS) {
      const ids = this.#tokenizer.encode(piece.slice(at, at + PIECE_CHARACTERS));
      fragments.push(ids);
      numTokens += ids.length;
      if (numTokens > 2 * maxTokens + PIECE_CHARACTERS) return fragments;
      await nextTurn();
    }
    return undefined;
  }

  #remember(piece: string, ids: Int32Array): void {
    if (this.#remembered.delete(piece)) this.#rememberedCharacters -= piece.length;
    this.#remembered.set(piece, ids);
    this.#rememberedCharacters += piece.length;
    for (const oldest of this.#remembered.keys()) {
      if (this.#rememberedCharacters <= MAX_REMEMBERED_CHARACTERS) return;
      this.#remembered.delete(oldest);
      this.#rememberedCharacters -= oldest.length;
    }
  }
}

/** A copy with memory of its own: a part of a string keeps the whole string alive. */
function unshared(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}

/** Finds out how this tokenizer's text may be cut. Tried once: text of a tokenizer that strips around its tokens is never cut. */
function planCuts(tokenizer: Tokenizer): (text: string) => readonly string[] {
  const special = specialTokens(tokenizer);
  if (special.length === 0 || !special.every((token) => isCutBefore(tokenizer, token, special)))
    return (text) => [text];
  const beforeSpecial = new RegExp(`(?=${special.map(escapePattern).join("|")})`);
  const cutSpecial = (text: string) => text.split(beforeSpecial);
  if (!isCutBetweenWords(tokenizer)) return cutSpecial;
  return (text) => cutSpecial(text).flatMap(cutBetweenWords);
}

function specialTokens(tokenizer: Tokenizer): readonly string[] {
  const texts = [...tokenizer.specialIds].map((id) => tokenizer.tokenOf(id) ?? "");
  return texts.filter((text) => text !== "");
}

function isCutBefore(tokenizer: Tokenizer, token: string, special: readonly string[]): boolean {
  const holdsAnother = special.some((other) => other !== token && token.indexOf(other, 1) > 0);
  return !holdsAnother && isSame(tokenizer, `a ${token} b\n`, ["a ", `${token} b\n`]);
}

const WORD_PROBES = [
  ...["one two", "don't Go", "a b", "aB Cd", "end and", "x\n\nso on", '(it is) "so" it\'s', "42abc def"],
  ...["f(x)=y", "1,2 3.14;15 92", "a, b. c", "\u4e2d\u6587\uff0c\u597d\u3002\u5417", "caf\u00e9 au lait!", "x-1=a_b"],
];

function isCutBetweenWords(tokenizer: Tokenizer): boolean {
  return WORD_PROBES.every((text) => isSame(tokenizer, text, text.split(BETWEEN_WORDS)));
}

/**
 * Behind a letter or digit: before a space with another one behind it, and before punctuation that is no apostrophe.
 * Every byte-level pre-tokenizer cuts there too.
 */
const BETWEEN_WORDS = /(?<=[\p{L}\p{N}])(?= [\p{L}\p{N}]|(?!['\u2019])[\p{P}\p{S}])/u;

function cutBetweenWords(text: string): readonly string[] {
  const pieces: string[] = [];
  let rest = text;
  while (rest.length > 2 * PIECE_CHARACTERS) {
    const at = rest.slice(PIECE_CHARACTERS - 1).search(BETWEEN_WORDS);
    if (at === -1) break;
    const end = PIECE_CHARACTERS - 1 + at;
    pieces.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return [...pieces, rest];
}

function isSame(tokenizer: Tokenizer, text: string, pieces: readonly string[]): boolean {
  const whole = tokenizer.encode(text);
  const parts = pieces.flatMap((piece) => [...tokenizer.encode(piece)]);
  return whole.length === parts.length && parts.every((id, index) => id === whole[index]);
}

function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

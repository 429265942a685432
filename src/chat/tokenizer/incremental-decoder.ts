/**
 * Decoding of a stream of token ids.
 *
 * In: ids, one or several at a time. Out: the text that no later id can change. What is still open (an emoji whose bytes
 * come in several tokens, a run of byte tokens) is held back until it is certain or until `flush`.
 * Promise: everything `push` and `flush` return, joined, is what `tokenizer.decode` gives for all ids at once. An id
 * costs O(length of its token), however many came before it.
 */

import { RerollError } from "../../errors/reroll-error.ts";
import type { DecodePlan, DecodeStage, Emit, PlainTokens } from "./decoding/decode-stage.ts";

/** The part of a tokenizer that a decoder needs. */
export interface DecodeSource {
  tokenOf(id: number): string | undefined;
  readonly specialIds: ReadonlySet<number>;
  /** The stages that turn token strings into text. */
  readonly decodePlan: DecodePlan;
}

export interface DecodeOptions {
  /** Leaves out special tokens such as `<|im_end|>`. Default false: a reader of rollouts wants to see them. */
  readonly skipSpecialTokens?: boolean;
}

/** The texts of tokens that stand for themselves, by id, for each vocabulary in use; null for tokens that do not. Most do, and come again and again. */
const plainTexts = new WeakMap<DecodeSource, (string | null | undefined)[]>();

/**
 * @example
 * const decoder = new IncrementalDecoder(tokenizer);
 * for await (const id of sampled) process.stdout.write(decoder.push(id));
 * process.stdout.write(decoder.flush());
 */
export class IncrementalDecoder {
  readonly #source: DecodeSource;
  readonly #skipSpecialTokens: boolean;
  readonly #stages: readonly DecodeStage[];
  readonly #first: Emit;
  /** The texts that a single stage knows beforehand; null where there are several stages, or none are known. */
  readonly #plain: PlainTokens | null;
  readonly #plainTexts: (string | null | undefined)[];
  /** Whether texts that are known beforehand may be taken: nothing is held back. */
  #isWhole: boolean;
  /** What is certain and was not given out yet. */
  #text = "";

  constructor(source: DecodeSource, { skipSpecialTokens = false }: DecodeOptions = {}) {
    this.#source = source;
    this.#skipSpecialTokens = skipSpecialTokens;
    const { stages, first } = startStages(source.decodePlan, (text) => {
      this.#text += text;
    });
    this.#stages = stages;
    this.#first = first;
    this.#plain = (stages.length === 1 ? stages[0]?.plain : undefined) ?? null;
    this.#isWhole = this.#plain?.isWhole ?? false;
    this.#plainTexts = plainTexts.get(source) ?? [];
    plainTexts.set(source, this.#plainTexts);
  }

  /** Takes the next id or ids and returns the text they make certain, often "". */
  push(ids: number | Iterable<number>): string {
    if (typeof ids === "number") this.#pushId(ids);
    else if (ids instanceof Int32Array) this.#pushReply(ids);
    else for (const id of ids) this.#pushId(id);
    return this.#takeText();
  }

  /** Ends the text and returns what was held back. The decoder can then be used for another text. */
  flush(): string {
    for (const stage of this.#stages) stage.flush();
    this.#isWhole = this.#plain?.isWhole ?? false;
    return this.#takeText();
  }

  #pushId(id: number): void {
    const plain = this.#plainText(id);
    if (plain === null) this.#pushThrough(id);
    else this.#text += plain;
  }

  /** The same for many. Nobody else's code runs in between, so `written` is this decoder's own. */
  #pushReply(ids: Int32Array): void {
    numWritten = 0;
    for (const id of ids) {
      const plain = this.#plainText(id);
      if (plain !== null && write(plain)) continue;
      this.#text += takeWritten();
      if (plain === null) this.#pushThrough(id);
      else this.#text += plain;
    }
    this.#text += takeWritten();
  }

  #plainText(id: number): string | null {
    return this.#isWhole ? (this.#plainTexts[id] ?? null) : null;
  }

  /** Ids past the end of the vocabulary decode to nothing: models pad their vocabulary, and a young policy samples there. */
  #pushThrough(id: number): void {
    if (!Number.isInteger(id) || id < 0) throw invalidId(id);
    if (this.#skipSpecialTokens && this.#source.specialIds.has(id)) return;
    const token = this.#source.tokenOf(id);
    if (token === undefined) return;
    this.#first(token);
    if (this.#plain === null) return;
    this.#isWhole = this.#plain.isWhole;
    if (this.#plainTexts[id] !== undefined) return;
    // Without gaps: a list with large ones is looked up as a dictionary.
    while (this.#plainTexts.length <= id) this.#plainTexts.push(undefined);
    this.#plainTexts[id] = this.#source.specialIds.has(id) ? null : this.#plain.textOf(token);
  }

  #takeText(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }
}

/** ASCII text of one call: a string that grows token by token is as many objects, and thousands of replies are decoded at once. */
const written = Buffer.alloc(65_536);
let numWritten = 0;

/** False where there is no room. */
function write(ascii: string): boolean {
  if (numWritten + ascii.length > written.length) return false;
  for (let i = 0; i < ascii.length; i++) written[numWritten++] = ascii.charCodeAt(i);
  return true;
}

function takeWritten(): string {
  const text = numWritten === 0 ? "" : written.toString("latin1", 0, numWritten);
  numWritten = 0;
  return text;
}

/** Links the stages so that each writes into the next and the last one into `emit`. */
function startStages(plan: DecodePlan, emit: Emit): { stages: readonly DecodeStage[]; first: Emit } {
  let first = emit;
  const stages: DecodeStage[] = [];
  for (const start of plan.toReversed()) {
    const stage = start(first);
    first = (piece) => stage.push(piece);
    stages.unshift(stage);
  }
  return { stages, first };
}

function invalidId(id: number): RerollError {
  return new RerollError(
    "INVALID_ARGUMENT",
    `A token id must be a whole number of 0 or more: got ${id}. Remove padding and ignore marks such as -100 before decoding.`,
    { id },
  );
}

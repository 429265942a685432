/**
 * Where a reply stands in its grammar.
 *
 * In: the tokens of a reply. Out: the mask of the next one, in most cases without asking the package, which takes 20 to 60 microseconds a token with a
 * vocabulary of 150,000. Two things are known without it. Between two characters of a JSON string, and in free text before a call, a
 * grammar allows what it allowed one token before. And a state that another reply has come to by the same text, strings and free text
 * left out, allows what it allowed then. The matcher is shown what led to a state when it has to be asked there, and not before.
 *
 * What a string is, the grammar says: in its rules a string has one more character, a mark that no token may write. Where the matcher takes the
 * mark, the reply is inside of a string and nowhere else.
 */
import { invariant } from "../../errors/reroll-error.ts";
import type { GrammarState, GrammarStates } from "./grammar-states.ts";
import type { SharedMasks } from "./shared-masks.ts";
import {
  BACKSLASH,
  isBetween,
  type LengthBounds,
  lengthMark,
  QUOTE,
  type StringPlace,
  type TokenLengths,
} from "./string-lengths.ts";
import type { GrammarMatcher } from "./xgrammar.ts";

export type Place =
  /** Free text that ends with so many characters of the text that begins a call. */
  { readonly kind: "text"; readonly numMatched: number } | ({ readonly kind: "string" } & StringPlace) | Elsewhere;

/** Anywhere else: behind a quote that opens something, as far as quotes and backslashes tell. */
interface Elsewhere {
  readonly kind: "other";
  readonly isQuoted: boolean;
  readonly isEscaped: boolean;
}

/** What the rules of a grammar say of the places in its texts. */
export interface GrammarPlaces {
  /** What ends free text, as bytes; undefined where texts do not begin with any. */
  readonly trigger: string | undefined;
  /** The bounds of strings that have some, the widest first. */
  readonly bounds: readonly LengthBounds[];
  /** Tokens with the mark of strings in them; undefined where the grammar does not have it. */
  readonly markIds: readonly number[] | undefined;
}

/** What replies of one grammar share. */
export interface GrammarParts {
  readonly places: GrammarPlaces;
  readonly states: GrammarStates;
  readonly lengths: TokenLengths;
  readonly masks: SharedMasks;
}

/** A character of strings in grammars, which no reply writes. */
export const INSIDE_MARK = "\u0003";

export class ReplyPosition {
  readonly #matcher: GrammarMatcher;
  readonly #parts: GrammarParts;
  /** The last state that others may come to as well. */
  #state: GrammarState;
  /** What leads to it. */
  #text: string;
  #place: Place;
  /** Tokens and marks that the matcher was not shown yet. */
  readonly #unshown: (number | string)[] = [];

  constructor(matcher: GrammarMatcher, parts: GrammarParts, stopIds: readonly number[]) {
    this.#matcher = matcher;
    this.#parts = parts;
    const start: Place = parts.places.trigger === undefined ? outside : { kind: "text", numMatched: 0 };
    // What ends a reply is part of every mask.
    this.#text = `${stopIds.join()}:`;
    this.#state = parts.states.get(this.#text) ?? parts.states.add(this.#text, start);
    this.#place = start;
  }

  /** The mask of the next token; undefined where it has to be asked for. */
  get mask(): Int32Array | undefined {
    return this.#isWithinCharacter || this.#state.mask === undefined ? undefined : this.#restricted(this.#state.mask);
  }

  /** Asks for the mask of the next token, unless another reply does so already. */
  async ask(): Promise<Int32Array> {
    if (this.#isWithinCharacter) return this.#restricted(await this.#asked());
    const state = this.#state;
    state.asking ??= this.#askFor(state);
    await state.asking;
    invariant(state.mask !== undefined, "a mask that was asked for is there");
    return this.#restricted(state.mask);
  }

  /** Goes on by a token that the mask allowed. */
  accept(tokenId: number): void {
    const before = this.#place;
    const { place: after, text } = this.#after(before, tokenId);
    this.#place = after;
    if (isSteady(before) && isSteady(after)) return;
    this.#unshown.push(tokenId);
    if (after.kind !== "other") return;
    this.#text += text;
    const known = this.#parts.states.get(this.#text);
    this.#state = known ?? this.#newState(after, tokenId);
    if (known?.mark !== undefined) this.#unshown.push(known.mark);
    this.#place = this.#state.place;
  }

  /** Part of a character: a state of this reply alone. */
  get #isWithinCharacter(): boolean {
    return this.#place.kind !== "other" && !isSteady(this.#place);
  }

  async #askFor(state: GrammarState): Promise<void> {
    try {
      state.mask = this.#parts.masks.share(await this.#asked());
    } finally {
      state.asking = undefined;
    }
  }

  async #asked(): Promise<Int32Array> {
    this.#show();
    const mask = await this.#matcher.getNextTokenBitmask();
    for (const id of this.#parts.places.markIds ?? []) mask[id >> 5]! &= ~(1 << (id & 31));
    return mask;
  }

  #show(): void {
    for (const one of this.#unshown.splice(0)) {
      const isTaken = typeof one === "number" ? this.#matcher.acceptToken(one) : this.#matcher._acceptString(one);
      invariant(isTaken, "a token that the mask allowed fits the grammar");
    }
  }

  #newState(place: Elsewhere, tokenId: number): GrammarState {
    this.#show();
    const { bounds, markIds } = this.#parts.places;
    const takes = (mark: string) => this.#matcher._acceptString(mark);
    // Where strings with different bounds may begin at the same place, the widest does.
    const isBehindQuote = this.#parts.lengths.bytesOf(tokenId).at(-1) === QUOTE;
    const begun = isBehindQuote ? bounds.find((one) => takes(lengthMark(one))) : undefined;
    const isInside = begun === undefined && markIds !== undefined && place.isQuoted && takes(INSIDE_MARK);
    const mark = begun === undefined ? (isInside ? INSIDE_MARK : undefined) : lengthMark(begun);
    const { min, max } = begun ?? { min: 0, max: Infinity };
    const opened = mark === undefined ? place : stringWith(min, max);
    return this.#parts.states.add(this.#text, opened, mark);
  }

  #restricted(mask: Int32Array): Int32Array {
    return this.#place.kind === "string" ? this.#parts.lengths.restricted(mask, this.#place) : mask;
  }

  /** The place behind a token, and the text of it that matters: what it adds to a string, or to free text, does not. */
  #after(place: Place, tokenId: number): { readonly place: Place; readonly text: string } {
    const bytes = this.#parts.lengths.bytesOf(tokenId);
    switch (place.kind) {
      case "text":
        return this.#textAfter(place.numMatched, latin1(bytes));
      case "string": {
        const after = this.#parts.lengths.after(place, tokenId);
        if (typeof after !== "number") return { place: { kind: "string", ...after }, text: "" };
        const rest = bytes.subarray(after);
        return { place: quoted({ ...outside, isQuoted: true }, rest), text: latin1(rest) };
      }
      case "other":
        return { place: quoted(place, bytes), text: latin1(bytes) };
    }
  }

  #textAfter(numMatched: number, added: string): { readonly place: Place; readonly text: string } {
    const trigger = this.#parts.places.trigger ?? "";
    const text = trigger.slice(0, numMatched) + added;
    const found = text.indexOf(trigger);
    if (found >= 0) {
      const rest = text.slice(found + trigger.length);
      return { place: quoted(outside, Buffer.from(rest, "latin1")), text: trigger + rest };
    }
    let length = text.includes(trigger[0]!) ? Math.min(text.length, trigger.length - 1) : 0;
    while (length > 0 && !text.endsWith(trigger.slice(0, length))) length--;
    return { place: { kind: "text", numMatched: length }, text: "" };
  }
}

const outside: Elsewhere = { kind: "other", isQuoted: false, isEscaped: false };

function stringWith(minLeft: number, maxLeft: number): Place {
  return { kind: "string", minLeft, maxLeft, escaped: 0, numBytes: 0 };
}

/** Whether the grammar allows here what it allowed at the beginning of this place. */
function isSteady(place: Place): boolean {
  switch (place.kind) {
    case "text":
      return place.numMatched === 0;
    case "string":
      return isBetween(place);
    case "other":
      return false;
  }
}

/** A place outside of strings that are known, behind these bytes. */
function quoted(place: Elsewhere, bytes: Uint8Array): Elsewhere {
  let { isQuoted, isEscaped } = place;
  for (const byte of bytes) {
    if (isEscaped) isEscaped = false;
    else if (byte === QUOTE) isQuoted = !isQuoted;
    else isEscaped = isQuoted && byte === BACKSLASH;
  }
  return { kind: "other", isQuoted, isEscaped };
}

function latin1(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

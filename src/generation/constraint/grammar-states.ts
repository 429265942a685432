/**
 * The states of a grammar that replies have come to.
 *
 * A state is known by the text that leads to it, without what changes nothing: see reply-position.ts. So replies that have written the same
 * structure around other strings are in the same state, and its mask is asked for once, by the first of them.
 */
import type { Place } from "./reply-position.ts";

export interface GrammarState {
  readonly place: Place;
  /** The mark that was written to get here, behind the text; undefined where there was none. */
  readonly mark: string | undefined;
  /** What may come next, once it is known. */
  mask: Int32Array | undefined;
  /** Set while someone asks for it. */
  asking: Promise<void> | undefined;
}

/** States that are kept of a grammar. All are forgotten at once: replies that are on their way keep theirs. */
const MAX_STATES = 1024;
/** Longer texts than this are compared in more time than a mask takes, and rarely the same. */
const MAX_TEXT = 4096;

export class GrammarStates {
  readonly #byText = new Map<string, GrammarState>();

  get(text: string): GrammarState | undefined {
    return text.length > MAX_TEXT ? undefined : this.#byText.get(text);
  }

  add(text: string, place: Place, mark?: string): GrammarState {
    const state = { place, mark, mask: undefined, asking: undefined };
    if (this.#byText.size >= MAX_STATES) this.#byText.clear();
    if (text.length <= MAX_TEXT) this.#byText.set(text, state);
    return state;
  }
}

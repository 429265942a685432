/** Looks for stop strings in a reply while it grows. */
import { IncrementalDecoder } from "../../chat/tokenizer/incremental-decoder.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";

export class StopTextFinder {
  readonly #decoder: IncrementalDecoder;
  readonly #stops: readonly string[];
  readonly #longest: number;
  /** The end of the text so far: what a stop string can begin in. */
  #tail = "";

  constructor(tokenizer: Tokenizer, stops: readonly string[]) {
    this.#decoder = new IncrementalDecoder(tokenizer, {});
    this.#stops = stops;
    this.#longest = Math.max(...stops.map((stop) => stop.length));
  }

  /** The stop string that the text now contains, if it does. */
  push(tokenId: number): string | undefined {
    const text = this.#tail + this.#decoder.push(tokenId);
    this.#tail = text.slice(-(this.#longest - 1) || text.length);
    return this.#stops.find((stop) => text.includes(stop));
  }
}

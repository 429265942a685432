/**
 * Names of prefixes, 128 bits each: what a block of the cache holds, everything before it, and the version of the weights.
 *
 * Two prefixes with one name would be answered from each other's cache, and nothing checks the tokens again. By chance that takes 2^64 blocks.
 * On purpose it must not be easier, where several people use one server: so names begin with a secret of this process, and tokens go through
 * a permutation as in a message authentication code. It is that of Chaskey (Mouha et al., "Chaskey: An Efficient MAC Algorithm for 32-bit
 * Microcontrollers", 2014), with the twelve rounds of ISO/IEC 29192-6. A block of sixteen tokens takes a tenth of a microsecond. SHA-256 takes
 * ten times that, and leaves objects to the garbage collector, in a step in which all sequences may fill a block.
 */
import { randomFillSync } from "node:crypto";

const WORDS = 4;
const ROUNDS = 12;
/** The name of no tokens. */
const secret = randomFillSync(new Int32Array(WORDS));

/**
 * The names of the full blocks of one sequence, each made from the one before it. Blocks that are compared have one size, and so need not name it.
 * Numbers in one piece of memory: nothing for the collector to copy.
 */
export class PrefixKeys {
  /** Four per name. */
  words: Int32Array;
  length: number;

  constructor(words = new Int32Array(WORDS * 4), length = 0) {
    this.words = words;
    this.length = length;
  }

  /** Names the next block, which holds these tokens. */
  push(tokenIds: Int32Array, start: number, end: number, version: number): void {
    const at = WORDS * this.length++;
    if (at === this.words.length) {
      const longer = new Int32Array(2 * at);
      longer.set(this.words);
      this.words = longer;
    }
    if (at === 0) writeName(this.words, 0, secret, 0, Int32Array.of(version, version / 2 ** 32), 0, 2);
    writeName(this.words, at, this.words, Math.max(at - WORDS, 0), tokenIds, start, end);
  }

  pop(): void {
    this.length--;
  }

  copy(): PrefixKeys {
    return new PrefixKeys(this.words.slice(), this.length);
  }
}

/** Equal for equal tokens. */
export function promptKey(tokenIds: Int32Array): string {
  const words = new Int32Array(WORDS);
  writeName(words, 0, secret, 0, Int32Array.of(tokenIds.length), 0, 1);
  writeName(words, 0, words, 0, tokenIds, 0, tokenIds.length);
  return words.join(" ");
}

/** The name of numbers after a prefix. They are taken by fours, with zeros for those that are missing at the end. */
function writeName(
  into: Int32Array,
  at: number,
  previous: Int32Array,
  previousAt: number,
  numbers: Int32Array,
  start: number,
  end: number,
): void {
  let a = previous[previousAt]!;
  let b = previous[previousAt + 1]!;
  let c = previous[previousAt + 2]!;
  let d = previous[previousAt + 3]!;
  for (let i = start; i < end; i += 4) {
    a ^= numbers[i]!;
    if (i + 1 < end) b ^= numbers[i + 1]!;
    if (i + 2 < end) c ^= numbers[i + 2]!;
    if (i + 3 < end) d ^= numbers[i + 3]!;
    for (let round = 0; round < ROUNDS; round++) {
      a = (a + b) | 0;
      b = rotated(b, 5) ^ a;
      a = rotated(a, 16);
      c = (c + d) | 0;
      d = rotated(d, 8) ^ c;
      c = (c + b) | 0;
      b = rotated(b, 7) ^ c;
      c = rotated(c, 16);
      a = (a + d) | 0;
      d = rotated(d, 13) ^ a;
    }
  }
  into[at] = a;
  into[at + 1] = b;
  into[at + 2] = c;
  into[at + 3] = d;
}

function rotated(word: number, numBits: number): number {
  return (word << numBits) | (word >>> (32 - numBits));
}

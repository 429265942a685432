/**
 * Seeded random numbers. Whoever needs chance gets a `Random` or a seed passed in; there is no other source of it.
 *
 * A seed and some keys give a new seed, so that every group, sample, environment and worker has a stream of its own that does
 * not depend on what the others draw.
 */
import { RerollError } from "../errors/reroll-error.ts";

/** A stream of random numbers (xoshiro128**). Its state is plain data, so that a checkpoint can hold it. */
export class Random {
  readonly #state: Uint32Array;

  constructor(seed: number | RandomState) {
    this.#state = typeof seed === "number" ? expand(seed) : Uint32Array.from(seed);
  }

  /** Uniform in [0, 1) with 53 random bits. */
  uniform(): number {
    return ((this.#next() >>> 5) * 2 ** 26 + (this.#next() >>> 6)) / 2 ** 53;
  }

  /** Uniform among 0, 1, ..., count - 1. */
  integer(count: number): number {
    if (Number.isSafeInteger(count) && count > 0) return Math.floor(this.uniform() * count);
    throw new RerollError("INVALID_ARGUMENT", `Random.integer needs a whole number above 0: got ${count}.`, { count });
  }

  /** One of the values, each as likely as any other. */
  pick<Value>(values: readonly Value[]): Value {
    return values[this.integer(values.length)]!;
  }

  /** A copy of the values in random order. */
  shuffled<Value>(values: readonly Value[]): Value[] {
    const result = [...values];
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.integer(i + 1);
      [result[i], result[j]] = [result[j]!, result[i]!];
    }
    return result;
  }

  /** Normal with mean 0 and deviation 1 (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  state(): RandomState {
    const [a, b, c, d] = this.#state;
    return [a!, b!, c!, d!];
  }

  #next(): number {
    const s = this.#state;
    const result = Math.imul(rotateLeft(Math.imul(s[1]!, 5), 7), 9) >>> 0;
    const shifted = s[1]! << 9;
    s[2]! ^= s[0]!;
    s[3]! ^= s[1]!;
    s[1]! ^= s[2]!;
    s[0]! ^= s[3]!;
    s[2]! ^= shifted;
    s[3] = rotateLeft(s[3]!, 11);
    return result;
  }
}

export type RandomState = readonly [number, number, number, number];

/** A seed of 32 bits that depends on `seed` and all keys, and on nothing else. */
export function deriveSeed(seed: number, ...keys: readonly (number | string)[]): number {
  let hash = mix((seed >>> 0) ^ mix(Math.floor(seed / 2 ** 32) ^ 0x9e3779b9));
  for (const key of keys) hash = mix(hash ^ (typeof key === "number" ? mix(key ^ 0x85ebca6b) : hashText(key)));
  return hash;
}

function expand(seed: number): Uint32Array {
  if (!Number.isSafeInteger(seed)) {
    throw new RerollError("INVALID_ARGUMENT", `A seed must be a whole number: got ${seed}.`, { seed });
  }
  return Uint32Array.from({ length: 4 }, (_, i) => deriveSeed(seed, i) || i + 1);
}

/** FNV-1a over the UTF-16 units, which is enough to keep names apart. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash ^ text.length);
}

/** A permutation of 32-bit integers in which every input bit changes every output bit half of the time. */
function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

function rotateLeft(value: number, bits: number): number {
  return ((value << bits) | (value >>> (32 - bits))) >>> 0;
}

/**
 * The order that Python's `random.seed(seed); random.shuffle(values)` gives, so that goal numbers mean the same goals here
 * as in WebShop's own environment. Nothing else may draw chance from here.
 *
 * The generator is MT19937 (Matsumoto and Nishimura, 1998), seeded by array as Python does for whole numbers.
 */

const SIZE = 624;
const MIDDLE = 397;

/** The values in the order of Python's shuffle. @param seed a whole number from 0 to 2^32 - 1 */
export function pythonShuffled<Value>(values: readonly Value[], seed: number): Value[] {
  const nextWord = mersenneTwister(seed);
  const result = [...values];
  for (let i = result.length - 1; i > 0; i--) {
    const j = below(i + 1, nextWord);
    [result[i], result[j]] = [result[j]!, result[i]!];
  }
  return result;
}

/** Uniform below `count`: words of as few bits as hold it, until one fits. */
function below(count: number, nextWord: () => number): number {
  const numBits = 32 - Math.clz32(count);
  for (;;) {
    const drawn = nextWord() >>> (32 - numBits);
    if (drawn < count) return drawn;
  }
}

function mersenneTwister(seed: number): () => number {
  const state = seededState(seed);
  let position = SIZE;
  return () => {
    if (position === SIZE) {
      advance(state);
      position = 0;
    }
    let word = state[position++]!;
    word ^= word >>> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return (word ^ (word >>> 18)) >>> 0;
  };
}

function seededState(seed: number): Uint32Array {
  const state = new Uint32Array(SIZE);
  state[0] = 19650218;
  for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, scrambled(state, i)) + i;
  // The key has one word, the seed, so its position is always 0.
  let i = 1;
  for (let round = 0; round < SIZE; round++) {
    state[i] = (state[i]! ^ Math.imul(scrambled(state, i), 1664525)) + seed;
    i = nextIndex(state, i);
  }
  for (let round = 1; round < SIZE; round++) {
    state[i] = (state[i]! ^ Math.imul(scrambled(state, i), 1566083941)) - i;
    i = nextIndex(state, i);
  }
  state[0] = 0x80000000;
  return state;
}

function scrambled(state: Uint32Array, i: number): number {
  return state[i - 1]! ^ (state[i - 1]! >>> 30);
}

function nextIndex(state: Uint32Array, i: number): number {
  if (i + 1 < SIZE) return i + 1;
  state[0] = state[SIZE - 1]!;
  return 1;
}

function advance(state: Uint32Array): void {
  for (let i = 0; i < SIZE; i++) {
    const joined = (state[i]! & 0x80000000) | (state[(i + 1) % SIZE]! & 0x7fffffff);
    state[i] = state[(i + MIDDLE) % SIZE]! ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0);
  }
}

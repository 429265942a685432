/** Random numbers that depend on nothing but a seed and a position, so that a draw does not depend on what else is drawn. */

/** Uniform in [0, 1) with 53 random bits, the same for the same seed and position everywhere. */
export function uniformAt(seed: number, position: number): number {
  // The seed may have more than 32 bits: both halves go in.
  const low = mix(mix(seed >>> 0) ^ mix(Math.floor(seed / 2 ** 32) ^ 0x9e3779b9) ^ mix(position ^ 0x85ebca6b));
  const high = mix(low ^ mix(position + 0xc2b2ae35) ^ 0x27d4eb2f);
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
}

/** A permutation of 32-bit integers in which every input bit changes every output bit half of the time. */
function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

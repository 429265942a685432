/** One array for masks that are equal: whoever keeps or uploads masks by identity then does it once. */

/** Masks that are kept: 5 MB with a vocabulary of 150,000. */
const MAX_SHARED = 256;

export class SharedMasks {
  readonly #byHash = new Map<number, Int32Array>();

  /** The mask, or one equal to it that came before. Nobody changes it from here on. */
  share(mask: Int32Array): Int32Array {
    const hash = hashOf(mask);
    const known = this.#byHash.get(hash);
    const shared = known !== undefined && areEqual(known, mask) ? known : mask;
    // Insertion order is the order of last use.
    this.#byHash.delete(hash);
    this.#byHash.set(hash, shared);
    const [oldest] = this.#byHash.keys();
    if (this.#byHash.size > MAX_SHARED && oldest !== undefined) this.#byHash.delete(oldest);
    return shared;
  }
}

/** FNV-1a, by words. */
function hashOf(mask: Int32Array): number {
  let hash = 0x811c9dc5;
  for (let word = 0; word < mask.length; word++) hash = Math.imul(hash ^ mask[word]!, 0x01000193);
  return hash;
}

function areEqual(one: Int32Array, other: Int32Array): boolean {
  const bytes = ({ buffer, byteOffset, byteLength }: Int32Array) => Buffer.from(buffer, byteOffset, byteLength);
  return bytes(one).equals(bytes(other));
}

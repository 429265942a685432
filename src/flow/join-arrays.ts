/** Arrays of tokens, and of what is known of each, end to end. */

export function joinIds(parts: readonly ArrayLike<number>[]): Int32Array {
  return fill(new Int32Array(totalLength(parts)), parts);
}

export function joinFloats(parts: readonly ArrayLike<number>[]): Float32Array {
  return fill(new Float32Array(totalLength(parts)), parts);
}

function totalLength(parts: readonly ArrayLike<number>[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

function fill<Joined extends Int32Array | Float32Array>(joined: Joined, parts: readonly ArrayLike<number>[]): Joined {
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

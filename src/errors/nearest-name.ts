/**
 * Finds the name a person most likely meant, for error messages.
 */

/**
 * The candidate with the smallest edit distance to `name`, the first one on a tie; case does not count.
 * Undefined when nothing is nearer than half of the longer name, because a far suggestion misleads.
 * Names over 256 characters are not compared: the cost is the product of the lengths.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > maxComparedLength) return undefined;
  let nearest: string | undefined;
  let nearestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    if (candidate.length > maxComparedLength) continue;
    const limit = Math.min(nearestDistance - 1, Math.floor(Math.max(name.length, candidate.length) / 2));
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase(), limit);
    if (distance <= limit) {
      nearest = candidate;
      nearestDistance = distance;
    }
  }
  return nearest;
}

/** ` Did you mean x?` with a leading space, or nothing where no candidate is near. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const nearest = nearestName(name, candidates);
  return nearest === undefined ? "" : ` Did you mean ${nearest}?`;
}

const maxComparedLength = 256;

/** Levenshtein distance; any number above `limit` as soon as the distance is known to be above it. */
function editDistance(from: string, to: string, limit: number): number {
  if (Math.abs(from.length - to.length) > limit) return limit + 1;
  let previous = new Uint16Array(to.length + 1).map((_, column) => column);
  let current = new Uint16Array(to.length + 1);
  for (let row = 1; row <= from.length; row++) {
    current[0] = row;
    let smallest = row;
    for (let column = 1; column <= to.length; column++) {
      const substituted = previous[column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1);
      const distance = Math.min(substituted, previous[column]! + 1, current[column - 1]! + 1);
      current[column] = distance;
      smallest = Math.min(smallest, distance);
    }
    if (smallest > limit) return limit + 1;
    [previous, current] = [current, previous];
  }
  return previous[to.length]!;
}

/**
 * Picks a few points that look like all of them.
 *
 * In: a range of values. Out: the indices to keep: of each of equally long stretches the smallest and the largest value, in order,
 * so that no spike is lost, and the first and the last point.
 */

/** At most about `maxPoints` indices from `from` to before `to`, in order. */
export function thinOut(values: ArrayLike<number>, from: number, to: number, maxPoints: number): readonly number[] {
  const count = to - from;
  if (count <= maxPoints) return Array.from({ length: Math.max(0, count) }, (_, i) => from + i);
  const numStretches = Math.max(1, Math.floor((maxPoints - 2) / 2));
  const kept = [from];
  for (let stretch = 0; stretch < numStretches; stretch++) {
    const start = from + 1 + Math.floor(((count - 2) * stretch) / numStretches);
    const end = from + 1 + Math.floor(((count - 2) * (stretch + 1)) / numStretches);
    kept.push(...extremes(values, start, end));
  }
  kept.push(to - 1);
  return kept;
}

/** NaN is neither; a stretch of only NaN keeps its first point, which leaves a gap. */
function extremes(values: ArrayLike<number>, start: number, end: number): readonly number[] {
  let low = -1;
  let high = -1;
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) continue;
    if (low === -1 || value < values[low]!) low = i;
    if (high === -1 || value > values[high]!) high = i;
  }
  if (low === -1) return start < end ? [start] : [];
  return low === high ? [low] : low < high ? [low, high] : [high, low];
}

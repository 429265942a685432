/** Numbers that describe repeated measurements on a machine that others use too. */

export interface Summary {
  readonly median: number;
  /** The least disturbed measurement. */
  readonly minimum: number;
  /** The middle half of the measurements lies between the two quartiles. */
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
  readonly count: number;
}

export function summarize(samples: readonly number[]): Summary {
  const sorted = samples.toSorted((a, b) => a - b);
  return {
    median: quantile(sorted, 0.5),
    minimum: quantile(sorted, 0),
    lowerQuartile: quantile(sorted, 0.25),
    upperQuartile: quantile(sorted, 0.75),
    count: sorted.length,
  };
}

/** "250 (240-270)": the median and the quartiles. */
export function spread({ median, lowerQuartile, upperQuartile }: Summary, digits: number): string {
  return `${median.toFixed(digits)} (${lowerQuartile.toFixed(digits)}-${upperQuartile.toFixed(digits)})`;
}

function quantile(sorted: readonly number[], fraction: number): number {
  const position = fraction * (sorted.length - 1);
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}

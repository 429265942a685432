/** A curve without axes, as small as a word. */
export function Sparkline({ values }: { readonly values: readonly (number | null)[] }) {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 2) return <svg class="spark" aria-hidden="true" />;
  const low = Math.min(...known);
  const range = Math.max(...known) - low || 1;
  const points = values.flatMap((value, i) =>
    value === null
      ? []
      : [`${((100 * i) / (values.length - 1)).toFixed(1)},${(22 - (20 * (value - low)) / range).toFixed(1)}`],
  );
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="Reward over the run">
      <polyline points={points.join(" ")} />
    </svg>
  );
}

/** Numbers and times as people read them. */

/** Three or four digits that matter. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(1).replace("e+", "e");
  if (size >= 10_000) return `${(value / 1000).toFixed(1)}k`;
  return String(Number(value.toPrecision(4)));
}

/** With a sign, for what can be either. */
export function signed(value: number | null): string {
  return value !== null && value > 0 ? `+${number(value)}` : number(value);
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share > 0.0995 && share < 0.9995 ? 0 : 1)} %`;
}

/** Memory: 512 B, 3.1 kB, 2.0 MB, 15.2 GB. */
export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  return `${(count / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

/** A length of time: 350 ms, 4.2 s, 3 min, 2.5 h. */
export function duration(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1000) return `${Math.round(ms)} ms`;
  if (size < 60_000) return `${(ms / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < 3_600_000) return `${(ms / 60_000).toFixed(size < 600_000 ? 1 : 0)} min`;
  if (size < 86_400_000) return `${(ms / 3_600_000).toFixed(1)} h`;
  return `${(ms / 86_400_000).toFixed(1)} d`;
}

/** How long ago an ISO time was. */
export function age(time: string): string {
  return duration(Math.max(0, Date.now() - Date.parse(time)));
}

/** Numbers and times as a terminal shows them: short, and the same width for the same kind of thing. */

/** Three digits, with k, M and G for large numbers: 0.512, 12.3, 8.21k. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 999.5) {
    const power = Math.min(3, Math.floor(Math.log10(size * 1.0005) / 3));
    return `${(value / 1000 ** power).toPrecision(3)}${["", "k", "M", "G"][power]}`;
  }
  if (size >= 1e-3 || size === 0) return String(Number(value.toPrecision(3)));
  return value.toExponential(1);
}

/** 0.123 as "12 %". */
export function formatShare(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** 45 s, 12:03, 3:05:09. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return hours === 0 ? `${minutes}:${two(seconds % 60)}` : `${hours}:${two(minutes)}:${two(seconds % 60)}`;
}

/** Text cut to a width, with an ellipsis where something is lost. Knows no wide characters and no colors. */
export function clip(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/** Wraps words into lines of at most this width, at most `maxLines` of them. */
export function wrap(text: string, width: number, maxLines: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length <= width) {
      line = longer;
    } else {
      lines.push(line);
      line = word;
    }
  }
  lines.push(line);
  if (lines.length <= maxLines) return lines.map((each) => clip(each, width));
  return [...lines.slice(0, maxLines - 1), `${lines[maxLines - 1]!} …`].map((each) => clip(each, width));
}

const BLOCKS = "▁▂▃▄▅▆▇█";

/** The values as blocks from lowest to highest, the newest on the right; more values than columns are averaged. */
export function sparkline(values: readonly number[], width: number): string {
  const finite = values.filter(Number.isFinite);
  const count = Math.min(width, finite.length);
  const columns = Array.from({ length: count }, (_, i) => {
    const part = finite.slice(Math.floor((i * finite.length) / count), Math.floor(((i + 1) * finite.length) / count));
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
  const low = Math.min(...columns);
  const range = Math.max(...columns) - low;
  const blockOf = (value: number) => (range === 0 ? 0 : Math.min(7, Math.floor(((value - low) / range) * 8)));
  return columns.map((value) => BLOCKS[blockOf(value)]).join("");
}

/** A bar of this width, filled to a share. */
export function progressBar(share: number, width: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, share)) * width);
  return "━".repeat(filled) + "─".repeat(width - filled);
}

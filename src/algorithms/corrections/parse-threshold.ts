/** Thresholds as people write them: a number, its text, or "low_high". */
import { RerollError } from "../../errors/reroll-error.ts";

export type Threshold = number | string;

/** `2`, `"2.0"` or `"0.5_2.0"`; `low` is null for a single number. Bounds are above 0 and in order. */
export function parseBounds(name: string, threshold: Threshold): { low: number | null; high: number } {
  const text = String(threshold).trim();
  const split = text.indexOf("_");
  const high = parsePositive(name, threshold, split === -1 ? text : text.slice(split + 1));
  if (split === -1) return { low: null, high };
  const low = parsePositive(name, threshold, text.slice(0, split));
  if (low <= high) return { low, high };
  throw new RerollError(
    "INVALID_ARGUMENT",
    `${name} must have its lower bound first: got "${threshold}". Write "${high}_${low}".`,
    { name, threshold },
  );
}

/** One number above 0. */
export function parseUpper(name: string, threshold: Threshold): number {
  const text = String(threshold).trim();
  if (!text.includes("_")) return parsePositive(name, threshold, text);
  throw new RerollError(
    "INVALID_ARGUMENT",
    `${name} takes one upper bound: got "${threshold}". Two bounds belong to the k1 criteria.`,
    { name, threshold },
  );
}

function parsePositive(name: string, threshold: Threshold, text: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (value > 0 && Number.isFinite(value)) return value;
  throw new RerollError(
    "INVALID_ARGUMENT",
    `${name} must be a number above 0, or two of them as "low_high": got ${JSON.stringify(threshold)}.`,
    { name, threshold },
  );
}

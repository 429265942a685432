/** `--explain`: every key of a settled run, its value, and where that comes from. */
import { redact } from "../errors/redact.ts";
import { leavesOf } from "./leaves-of.ts";
import type { Origin, Origins } from "./resolve-run.ts";

/** One line per key, in three columns. */
export function explainRun({ config, origins }: { readonly config: object; readonly origins: Origins }): string {
  const rows = leavesOf(redact(config) as object).map(
    ({ key, value }) => [key, show(value), originOf(key, origins)] as const,
  );
  const widths = [0, 1].map((column) => Math.min(60, Math.max(...rows.map((row) => row[column]!.length))));
  return rows
    .map(([key, value, origin]) => `${key.padEnd(widths[0]!)}  ${value.padEnd(widths[1]!)}  ${origin}`)
    .join("\n");
}

/** Where the value of a key comes from: the origin of the key, or of the nearest key above it that was written as a whole. */
export function originOf(key: string, origins: Origins): Origin {
  const parts = key.split(".");
  // What was written last counts: a --set above a key of the file replaced it.
  const found = parts.map((_, i) => origins.get(parts.slice(0, i + 1).join("."))).filter((one) => one !== undefined);
  return found.find((origin) => origin === "--set") ?? found.at(-1) ?? "default";
}

function show(value: unknown): string {
  return typeof value === "function" ? "(code)" : (JSON.stringify(value) ?? "(nothing)");
}

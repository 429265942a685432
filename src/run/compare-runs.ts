/** Runs side by side, as text: a list of them, and where they differ. Pure. */
import type { ReadRun } from "../tracking/read-run.ts";
import type { RunInfo } from "../tracking/run-record.ts";
import { leavesOf } from "./resolve-run.ts";

/** One line per run, the newest first as they come. */
export function listTable(runs: readonly { readonly folder: string; readonly info: RunInfo }[]): string {
  if (runs.length === 0) return "There are no runs here.";
  const rows = runs.map(({ folder, info }) => [
    folder,
    info.status,
    info.startedAt.slice(0, 16).replace("T", " "),
    String(info.numSteps),
    info.recipe,
    info.model,
    info.tags.join(","),
  ]);
  return table([["folder", "status", "started", "steps", "recipe", "model", "tags"], ...rows]);
}

/** Keys whose values differ, then the last value of every metric that all runs have. */
export function compareTable(runs: readonly ReadRun[]): string {
  const names = runs.map(({ folder }) => folder);
  const configs = runs.map(
    ({ config }) => new Map(leavesOf(asObject(config)).map(({ key, value }) => [key, JSON.stringify(value)])),
  );
  const keys = [...new Set(configs.flatMap((config) => [...config.keys()]))];
  const differing = keys.filter((key) => new Set(configs.map((config) => config.get(key))).size > 1);
  const lasts = runs.map(lastValues);
  const shared = [...(lasts[0]?.keys() ?? [])].filter((name) => lasts.every((last) => last.has(name)));
  return table([
    ["", ...names],
    ...differing.map((key) => [key, ...configs.map((config) => config.get(key) ?? "-")]),
    ["", ...names.map(() => "")],
    ...shared.sort().map((name) => [name, ...lasts.map((last) => String(Number(last.get(name)!.toPrecision(5))))]),
  ]);
}

/** The last value of each metric. Supervised steps are left out. */
function lastValues({ metrics }: ReadRun): ReadonlyMap<string, number> {
  const last = new Map<string, number>();
  for (const record of metrics) {
    if (record.kind === "supervised") continue;
    for (const [name, value] of Object.entries(record.metrics)) last.set(name, value);
  }
  return last;
}

function asObject(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

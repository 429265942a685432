/**
 * One table of what the scripts of bench/gpu/all.sh have written to a folder.
 *
 * Usage: summary <folder>. Of every gpu-*.json: what was measured, and its speed, time and memory where it has them.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

type Row = Readonly<Record<string, unknown>>;

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("Usage: summary <folder>");
for (const file of readdirSync(folder).filter((name) => /^gpu-.*\.json$/.test(name))) {
  const result = JSON.parse(readFileSync(join(folder, file), "utf8")) as Row;
  const rows = [result.results, result.rows, result.cases, [result]].find(Array.isArray) as readonly Row[];
  const name = file.replace(".json", "");
  console.log(`\n${name}, ${String(result.date ?? "").slice(0, 16)}`);
  for (const row of rows) console.log(`  ${(nameOf(row) || name).padEnd(60)} ${measuresOf(row)}`);
}

/** Words and sizes that tell a row from the others. */
function nameOf(row: Row): string {
  const words = ["name", "code", "kernels", "what", "shape", "loop"].flatMap((key) =>
    typeof row[key] === "string" ? [row[key]] : [],
  );
  const sizes = ["B", "length", "maxStepTokens", "waitMs"].flatMap((key) =>
    typeof row[key] === "number" ? [`${key} ${row[key]}`] : [],
  );
  return [...words, ...sizes].join(", ");
}

function measuresOf(row: Row): string {
  const measures: readonly (readonly [key: string, unit: string, digits: number])[] = [
    ["tokensPerSecond", "tok/s", 0],
    ["msPerStep", "ms", 2],
    ["stepSeconds", "s a step", 2],
    ["firstStepSeconds", "s to the first step", 1],
    ["peakGB", "GB", 1],
    ["shareOfPeak", "of the peak", 3],
    ["meanGap", "mean gap", 5],
    ["ratio", "x", 2],
  ];
  return measures
    .flatMap(([key, unit, digits]) => {
      const value = row[key];
      return typeof value === "number" ? [`${value.toFixed(digits)} ${unit}`] : [];
    })
    .join("  ");
}

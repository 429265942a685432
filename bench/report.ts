/**
 * What every benchmark ends with: a table for the reader, and bench/results/<name>.json with the numbers, the machine and
 * the date.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { native } from "../src/torch/binding.ts";

/** Where the numbers come from. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly platform: string;
  readonly libtorch: string;
  readonly node: string;
  /** Runnable tasks over the last minute, at the end of the run: above `cores`, others were using the machine. */
  readonly loadAverage: number;
}

export function describeMachine(): Machine {
  const [first] = cpus();
  return {
    cpu: first?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    libtorch: native.torchVersion,
    node: process.version,
    loadAverage: Number(loadavg()[0]?.toFixed(1)),
  };
}

/** Writes bench/results/<name>.json and says so, with the machine. */
export function writeResult(name: string, result: Readonly<Record<string, unknown>>): void {
  const machine = describeMachine();
  const folder = new URL("results/", import.meta.url);
  mkdirSync(folder, { recursive: true });
  const file = new URL(`${name}.json`, folder);
  writeFileSync(file, `${JSON.stringify({ name, date: new Date().toISOString(), machine, ...result }, null, 2)}\n`);
  const { cpu, cores, memoryGiB, libtorch, node, loadAverage } = machine;
  console.log(
    `\n${cpu}, ${cores} cores, ${memoryGiB} GiB, libtorch ${libtorch}, node ${node}, load average ${loadAverage}`,
  );
  console.log(`written to ${fileURLToPath(file)}`);
}

/** As above where nothing else was using the machine, and says so where something was: times of a busy one do not take the place of others. */
export function writeQuietResult(name: string, result: Readonly<Record<string, unknown>>): void {
  const [load, cores] = [loadavg()[0] ?? 0, cpus().length];
  if (load <= cores) writeResult(name, result);
  else
    console.log(
      `\nnot written: the load average is ${load.toFixed(1)}, and there are ${cores} cores. Run it again where nothing else does.`,
    );
}

/** Prints rows under headers; the first column is text, the others are numbers and stand to the right. */
export function printTable(title: string, headers: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = headers.map((header, i) => Math.max(header.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  console.log(`\n${title}\n${line(headers)}`);
  console.log(widths.map((width) => "-".repeat(width)).join("  "));
  for (const row of rows) console.log(line(row));
}

/** "within the bar of 1.05" or "ABOVE the bar of 1.05". */
export function verdict(value: number, bar: number): string {
  return value <= bar ? `within the bar of ${bar}` : `ABOVE the bar of ${bar}`;
}

/**
 * Whether a run keeps its memory, files and threads for as long as it goes on: the resident memory, open files and threads of each of its
 * processes, a server of environments among them, looked at every ten seconds.
 *
 * npm run bench -- soak [minutes]
 * Resident memory goes up and down with the garbage of nine threads, by more in a minute than the bar allows in an hour. What a process holds on
 * to is what it comes down to, so beside the trend of all looks there is that of the least of each five minutes.
 * Bar: over the second half, open files and threads do not grow, and the least resident memory of no process by more than 2 % an hour.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type ProcessFacts, processTree } from "./process-tree.ts";
import { printTable, writeResult } from "./report.ts";

const minutes = Number(process.argv[2] ?? 60);
const maxGrowthPerHour = 0.02;
const everyMs = 10_000;
const windowMinutes = 5;

interface Look {
  readonly hours: number;
  readonly facts: readonly ProcessFacts[];
}

const folder = mkdtempSync(join(tmpdir(), "reroll-soak-"));
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const runFile = fileURLToPath(new URL("faults-run.ts", import.meta.url));
const server = spawn(process.execPath, [main, "serve-environments", runFile, "--port", "0"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const url = await addressOf(server);
const sets = [
  `tracking.folder=${folder}`,
  `envs.game=${JSON.stringify({ type: "remote", url })}`,
  "loop.steps=100000000",
  "tracking.trajectoriesEvery=50",
  "checkpoint.every=20",
];
const words = ["train", runFile, "--restarts", "1", ...sets.flatMap((set) => ["--set", set])];
const child = spawn(process.execPath, [main, ...words], { stdio: ["ignore", "ignore", "inherit"] });
const looks: Look[] = [];
const start = performance.now();
const hoursNow = () => (performance.now() - start) / 3_600_000;
while (hoursNow() < minutes / 60 && child.exitCode === null) {
  await setTimeout(everyMs);
  looks.push({ hours: hoursNow(), facts: [child, server].flatMap(({ pid }) => processTree(pid!)) });
  if (looks.length % 6 === 0) report(false);
}
const steps = readFileSync(join(folder, "faults/metrics.jsonl"), "utf8").trim().split("\n").length;
child.kill("SIGTERM");
const [code] = await once(child, "exit");
server.kill("SIGTERM");
report(true);
rmSync(folder, { recursive: true });

/** Where a server says that it listens. */
async function addressOf({ stdout }: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: stdout! })) {
    const found = /^listening on (\S+)/.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  throw new Error("The server of environments ended before it listened.");
}

/** The slope of a line through points, by least squares. */
function slope(points: readonly (readonly [number, number])[]): number {
  const mean = (pick: (point: readonly [number, number]) => number) =>
    points.reduce((sum, point) => sum + pick(point), 0) / points.length;
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)];
  const over = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0);
  return over / points.reduce((sum, [at]) => sum + (at - x) ** 2, 0);
}

/** The least value of each window of time. */
function leastOf(points: readonly (readonly [number, number])[]): (readonly [number, number])[] {
  const least = new Map<number, readonly [number, number]>();
  for (const point of points) {
    const window = Math.floor((60 * point[0]) / windowMinutes);
    const known = least.get(window);
    if (known === undefined || point[1] < known[1]) least.set(window, point);
  }
  return [...least.values()];
}

/** The largest of the first half and of the second: connections come and go. */
function most(values: readonly number[]): readonly [number, number] {
  const middle = Math.ceil(values.length / 2);
  return [Math.max(...values.slice(0, middle)), Math.max(...values.slice(middle))];
}

function report(isLast: boolean): void {
  const later = looks.filter(({ hours }) => hours > looks.at(-1)!.hours / 2);
  const processes = looks.at(-1)!.facts.map(({ pid, command }) => {
    const seen = later.flatMap(({ hours, facts }) => {
      const one = facts.find((fact) => fact.pid === pid);
      return one === undefined ? [] : [{ hours, ...one }];
    });
    const first = seen[0]!;
    const last = seen.at(-1)!;
    const points = seen.map(({ hours, residentBytes }) => [hours, residentBytes] as const);
    const least = leastOf(points);
    return {
      role: roleOf(command),
      numLooks: seen.length,
      residentBytes: last.residentBytes,
      growthPerHour: slope(points) / first.residentBytes,
      leastGrowthPerHour: slope(least) / least[0]![1],
      leastBytes: [least[0]![1], least.at(-1)![1]],
      numFiles: most(seen.map(({ numFiles }) => numFiles)),
      numThreads: most(seen.map(({ numThreads }) => numThreads)),
    };
  });
  const headers = ["process", "resident MB", "growth per hour", "of the least", "open files", "threads"];
  const rows = processes.map(({ role, residentBytes, growthPerHour, leastGrowthPerHour, numFiles, numThreads }) => [
    role,
    (residentBytes / 1e6).toFixed(1),
    `${(100 * growthPerHour).toFixed(2)} %`,
    `${(100 * leastGrowthPerHour).toFixed(2)} %`,
    numFiles.join(" to "),
    numThreads.join(" to "),
  ]);
  printTable(`After ${(60 * looks.at(-1)!.hours).toFixed(1)} minutes, over the second half`, headers, rows);
  if (!isLast) return;
  const isFlat = processes.every(
    ({ leastGrowthPerHour, numFiles, numThreads }) =>
      leastGrowthPerHour < maxGrowthPerHour && numFiles[1] <= numFiles[0] && numThreads[1] <= numThreads[0],
  );
  console.log(`${steps} steps; exit code ${code}; ${isFlat ? "flat" : "NOT flat"}.`);
  const curve = looks
    .filter((_, i) => i % 6 === 0)
    .map(({ hours, facts }) => ({
      minutes: Number((60 * hours).toFixed(1)),
      residentMB: facts.map(({ command, residentBytes }) => [roleOf(command), Math.round(residentBytes / 1e6)]),
    }));
  writeResult("soak", { minutes, steps, maxGrowthPerHour, isFlat, processes, curve });
}

function roleOf(command: string): string {
  if (command.includes("engine-process")) return "engine";
  if (command.includes("serve-environments")) return "environments";
  if (command.includes("esbuild")) return "esbuild, which loads the run file";
  return command.includes("--supervised") ? "controller" : "supervisor";
}

/**
 * Whether a run keeps its memory, files and threads for as long as it goes on. Every minute garbage is collected in all threads of its processes, a
 * server of environments among them, and the heaps are looked at; resident memory, which rises again soon after, open files and threads every second.
 *
 * npm run bench -- soak [minutes]
 * Resident memory goes up and down by more in a minute than the bar allows in an hour. What a process never lets go of raises what it comes down to:
 * resident memory is judged by the least of each whole five minutes, open files and threads by the least of each quarter of the run, and heaps by
 * the trend of all looks, since they are looked at after a collection only. Most of the ups and downs are pages that V8 keeps for its heaps: what is
 * resident beside them is shown too, with its trend.
 * Connections to the server of environments come and go with the calls. How few a quarter of an hour has seen is chance, but they have a bound: one for
 * each episode under way, as many for episodes that became too old before they had begun, whose first call still runs, and one for prompts. Those that
 * are never closed add to those in use, and break it.
 * Memory follows the speed of a run, so steps are counted by the minute. Where a minute of the second half has less than a fifth of the usual steps, the
 * machine was at a standstill, and nothing is said of memory.
 * Bar: over the second half, threads and open files without those connections do not grow, and heaps and resident memory of no process by more than 2 %
 * an hour; over all of the run, there are never more connections than their bound. Threads of esbuild are shown and not judged: they are those of Go,
 * which starts another one whenever all are busy for a moment, and ends none.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connectionsOf, openFiles, type ProcessFacts, processTree } from "./process-tree.ts";
import { printTable, writeResult } from "./report.ts";
import { summarize } from "./statistics.ts";

const minutes = Number(process.argv[2] ?? 60);
const maxGrowthPerHour = 0.02;
const everyMs = 1000;
const windowMinutes = 5;
const maxInFlight = 32;
const maxConnections = 2 * maxInFlight + 1;
const ESBUILD = "esbuild, which loads the run file";

interface Look {
  readonly hours: number;
  readonly facts: readonly ProcessFacts[];
  /** To the server of environments. */
  readonly numConnections: number;
}

const folder = mkdtempSync(join(tmpdir(), "reroll-soak-"));
const heaps = join(folder, "heaps");
mkdirSync(heaps);
const preload = fileURLToPath(new URL("collects-each-minute.cjs", import.meta.url));
const env = { ...process.env, REROLL_HEAPS: heaps, NODE_OPTIONS: `--require=${JSON.stringify(preload)}` };
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const runFile = fileURLToPath(new URL("faults-run.ts", import.meta.url));
const server = spawn(process.execPath, [main, "serve-environments", runFile, "--port", "0"], {
  stdio: ["ignore", "pipe", "inherit"],
  env,
});
const url = await addressOf(server);
const sets = [
  `tracking.folder=${folder}`,
  `envs.game=${JSON.stringify({ type: "remote", url })}`,
  `rollout.maxInFlight=${maxInFlight}`,
  "loop.steps=100000000",
  "tracking.trajectoriesEvery=50",
  "checkpoint.every=20",
];
const words = ["train", runFile, "--restarts", "1", ...sets.flatMap((set) => ["--set", set])];
const child = spawn(process.execPath, [main, ...words], { stdio: ["ignore", "ignore", "inherit"], env });
const exited = once(child, "exit");
const looks: Look[] = [];
/** After each minute. */
const stepsSoFar: number[] = [0];
const start = Date.now();
const port = Number(new URL(url).port);
const hoursNow = () => (Date.now() - start) / 3_600_000;
while (hoursNow() < minutes / 60 && child.exitCode === null && child.signalCode === null) {
  await setTimeout(everyMs);
  looks.push(look());
  if (60 * hoursNow() < stepsSoFar.length) continue;
  stepsSoFar.push(countSteps());
  report(false);
}
const steps = countSteps();
child.kill("SIGTERM");
const [code] = await exited;
server.kill("SIGTERM");
report(true);
rmSync(folder, { recursive: true });

function countSteps(): number {
  const file = join(folder, "faults/metrics.jsonl");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").length : 0;
}

/** Files are listed before connections: one that is opened in between is in neither, and one that is closed counts as a file for once. */
function look(): Look {
  const tree = [child, server]
    .flatMap(({ pid }) => processTree(pid!))
    .map((one) => ({ ...one, files: openFiles(one.pid) }));
  const { count, links } = connectionsOf(port);
  const facts = tree.map(({ files, ...one }) => ({
    ...one,
    numFiles: files.filter((file) => !links.has(file)).length,
  }));
  return { hours: hoursNow(), facts, numConnections: count };
}

/** Where a server says that it listens. */
async function addressOf({ stdout }: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: stdout! })) {
    const found = /^listening on (\S+)/.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  throw new Error("The server of environments ended before it listened.");
}

/** The slope of a line through points, by least squares. */
function slope(points: Points): number {
  const mean = (pick: (point: readonly [number, number]) => number) =>
    points.reduce((sum, point) => sum + pick(point), 0) / points.length;
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)];
  const over = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0);
  return over / points.reduce((sum, [at]) => sum + (at - x) ** 2, 0);
}

/** The first and the last value, and by what part of the first they rise in an hour. Null for fewer than two. */
function trendOf(points: Points): { readonly ends: readonly [number, number]; readonly perHour: number } | null {
  if (points.length < 2) return null;
  const [first, last] = [points[0]![1], points.at(-1)![1]];
  return { ends: [first, last], perHour: slope(points) / first };
}

/** The least value of each whole window of time from `from` on: what a part of one has come down to is chance. */
function leastOf(points: Points, from: number): (readonly [number, number])[] {
  const end = looks.at(-1)!.hours;
  const numWhole = Math.floor((60 * (end - from)) / windowMinutes);
  const least = new Map<number, readonly [number, number]>();
  for (const point of points) {
    const window = Math.floor((60 * (point[0] - from)) / windowMinutes);
    const known = least.get(window);
    if (window < numWhole && (known === undefined || point[1] < known[1])) least.set(window, point);
  }
  return [...least.values()];
}

/** The least of the first half and of the second. */
function leastOfHalves(values: readonly number[]): readonly [number, number] {
  const middle = Math.ceil(values.length / 2);
  return [Math.min(...values.slice(0, middle)), Math.min(...values.slice(middle))];
}

/** By the time since the start in hours. */
type Points = readonly (readonly [number, number])[];

/** A line of `collects-each-minute.cjs`: of a collection, or of half a minute later. */
type CollectedLine = { readonly minute: number } & (
  | { readonly heapBytes: number }
  | { readonly keptBytes: number; readonly residentBytes: number }
);

/** The heaps of all threads of a process together, after each collection. */
function heapsOf(pid: number): Points {
  return wholeMinutes(
    linesOf(pid).flatMap((line) => ("heapBytes" in line ? [{ minute: line.minute, bytes: line.heapBytes }] : [])),
  ).map(([hours, threads]) => [hours, sum(threads)]);
}

/** What a process has in memory beside what V8 keeps for the heaps of its threads, between two collections. */
function besideHeapsOf(pid: number): Points {
  const between = linesOf(pid).flatMap((line) => ("heapBytes" in line ? [] : [{ ...line, minute: line.minute + 0.5 }]));
  const resident = wholeMinutes(between.map(({ minute, residentBytes }) => ({ minute, bytes: residentBytes })));
  const kept = wholeMinutes(between.map(({ minute, keptBytes }) => ({ minute, bytes: keptBytes })));
  return resident.map(([hours, threads], i) => [hours, Math.min(...threads) - sum(kept[i]![1])]);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function linesOf(pid: number): CollectedLine[] {
  const names = readdirSync(heaps).filter((one) => one.startsWith(`${pid}-`));
  const lines = names.flatMap((name) => readFileSync(join(heaps, name), "utf8").trim().split("\n"));
  return lines.map((line) => JSON.parse(line) as CollectedLine);
}

/** What each thread has written, by the time since the start. Minutes that a thread is late for are left out: their sum would lack it. */
function wholeMinutes(
  lines: readonly { readonly minute: number; readonly bytes: number }[],
): (readonly [number, readonly number[]])[] {
  const minutes = new Map<number, number[]>();
  for (const { minute, bytes } of lines) minutes.set(minute, [...(minutes.get(minute) ?? []), bytes]);
  const numThreads = Math.max(0, ...[...minutes.values()].map(({ length }) => length));
  return [...minutes]
    .filter(([, threads]) => threads.length === numThreads)
    .sort(([a], [b]) => a - b)
    .map(([minute, threads]) => [minute / 60 - start / 3_600_000, threads] as const);
}

function report(isLast: boolean): void {
  const halfTime = looks.at(-1)!.hours / 2;
  const processes = looks.at(-1)!.facts.map(({ pid, command }) => {
    const seen = looks.flatMap(({ hours, facts }) => {
      const one = hours > halfTime ? facts.find((fact) => fact.pid === pid) : undefined;
      return one === undefined ? [] : [{ hours, ...one }];
    });
    const resident = trendOf(
      leastOf(
        seen.map(({ hours, residentBytes }) => [hours, residentBytes]),
        halfTime,
      ),
    );
    const isLate = ([hours]: Points[number]) => hours > halfTime;
    const heap = trendOf(heapsOf(pid).filter(isLate));
    const beside = trendOf(besideHeapsOf(pid).filter(isLate));
    return {
      role: roleOf(command),
      residentBytes: resident?.ends ?? null,
      residentGrowthPerHour: resident?.perHour ?? null,
      heapBytes: heap?.ends ?? null,
      heapGrowthPerHour: heap?.perHour ?? null,
      besideHeapsBytes: beside?.ends ?? null,
      besideHeapsGrowthPerHour: beside?.perHour ?? null,
      numFiles: leastOfHalves(seen.map(({ numFiles }) => numFiles)),
      numThreads: leastOfHalves(seen.map(({ numThreads }) => numThreads)),
    };
  });
  const growth = "growth per hour";
  const headers = [
    "process",
    "heaps MB",
    growth,
    "resident MB",
    growth,
    "beside heaps MB",
    growth,
    "open files",
    "threads",
  ];
  const megabytes = (values: readonly number[] | null) =>
    values === null ? "-" : values.map((bytes) => (bytes / 1e6).toFixed(1)).join(" to ");
  const percent = (rate: number | null) => (rate === null ? "-" : `${(100 * rate).toFixed(2)} %`);
  const rows = processes.map((one) => [
    one.role,
    megabytes(one.heapBytes),
    percent(one.heapGrowthPerHour),
    megabytes(one.residentBytes),
    percent(one.residentGrowthPerHour),
    megabytes(one.besideHeapsBytes),
    percent(one.besideHeapsGrowthPerHour),
    one.numFiles.join(" to "),
    one.numThreads.join(" to "),
  ]);
  printTable(`After ${(60 * looks.at(-1)!.hours).toFixed(1)} minutes, over the second half`, headers, rows);
  const connections = {
    most: Math.max(...looks.map(({ numConnections }) => numConnections)),
    leastOfQuarters: leastOfHalves(looks.filter(({ hours }) => hours > halfTime).map((one) => one.numConnections)),
    bound: maxConnections,
  };
  console.log(`Connections to the server of environments: ${JSON.stringify(connections)}`);
  if (!isLast) return;
  const isFlat =
    connections.most <= connections.bound &&
    processes.every(
      ({ role, residentGrowthPerHour, heapGrowthPerHour, numFiles, numThreads }) =>
        (residentGrowthPerHour ?? Number.POSITIVE_INFINITY) < maxGrowthPerHour &&
        (heapGrowthPerHour ?? 0) < maxGrowthPerHour &&
        numFiles[1] <= numFiles[0] &&
        (numThreads[1] <= numThreads[0] || role === ESBUILD),
    );
  const stepsPerMinute = stepsSoFar.slice(1).map((count, minute) => count - stepsSoFar[minute]!);
  const late = stepsPerMinute.slice(stepsPerMinute.length / 2);
  const stoodStill = late.some((count) => count < summarize(late).median / 5);
  const judgement = stoodStill ? "the run came to a standstill" : isFlat ? "flat" : "NOT flat";
  console.log(`${steps} steps; exit code ${code}; ${judgement}.`);
  const rounded = (points: Points) =>
    points.map(([hours, bytes]) => [Number((60 * hours).toFixed(1)), Number((bytes / 1e6).toFixed(2))]);
  const curves = looks.at(-1)!.facts.map(({ pid, command }) => ({
    role: roleOf(command),
    heapMB: rounded(heapsOf(pid)),
    besideHeapsMB: rounded(besideHeapsOf(pid)),
    leastResidentMB: rounded(
      leastOf(
        looks.flatMap(({ hours, facts }) =>
          facts.filter((fact) => fact.pid === pid).map(({ residentBytes }) => [hours, residentBytes] as const),
        ),
        0,
      ),
    ),
  }));
  const run = { minutes, steps, stepsPerMinute, exitCode: code };
  writeResult("soak", { ...run, maxGrowthPerHour, stoodStill, isFlat, connections, processes, curves });
}

function roleOf(command: string): string {
  if (command.includes("engine-process")) return "engine";
  if (command.includes("serve-environments")) return "environments";
  if (command.includes("esbuild")) return ESBUILD;
  return command.includes("--supervised") ? "controller" : "supervisor";
}

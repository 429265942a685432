/**
 * What starting costs in CPU time: commands, and threads of a run as bundles beside the same threads module by module.
 *
 * npm run bench -- starts [times]
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { printTable, writeResult } from "./report.ts";
import { type Summary, spread, summarize } from "./statistics.ts";

const numTimes = Number(process.argv[2] ?? 9);
const fileOf = (file: string) => new URL(`../dist/${file}.js`, import.meta.url);
const THREADS = {
  "trainer's thread": "training/trainer-worker",
  "engine's thread": "generation/local/engine-worker",
  "checkpoint writer's thread": "run/checkpoint-writer-worker",
};

/** A thread that is given nothing to build says as soon as its modules are loaded that it is there, or fails. */
const thread = (file: string) => [
  ...["--input-type=module", "--eval"],
  `import { Worker } from "node:worker_threads";
   const worker = new Worker(new URL(${JSON.stringify(fileOf(file).href)}), { execArgv: [] });
   worker.once("error", () => {}).once("message", () => worker.terminate());`,
];
const starts: Record<string, readonly string[]> = {
  "node that does nothing": ["--eval", ""],
  "reroll --help": [fileURLToPath(fileOf("cli/main")), "--help"],
  "what reroll train imports": ["--input-type=module", "--eval", `await import("${fileOf("run/run-training").href}")`],
  ...Object.fromEntries(
    Object.entries(THREADS).flatMap(([name, module]) => [
      [`${name}, module by module`, thread(module)],
      [`${name}, as a bundle`, thread(`bundled/${module.split("/").at(-1)}`)],
    ]),
  ),
};

const samples = new Map<string, number[]>(Object.keys(starts).map((name) => [name, []]));
for (let time = 0; time < numTimes; time++) {
  for (const [name, words] of Object.entries(starts)) samples.get(name)!.push(cpuMs(words));
}
const results = Object.fromEntries([...samples].map(([name, times]) => [name, summarize(times)]));
printTable("CPU time of a start", ["", "ms, median and quartiles"], Object.entries(results).map(rowOf));
writeResult("starts", { unit: "ms of CPU time", results });

function rowOf([name, summary]: readonly [string, Summary]): string[] {
  return [name, spread(summary, 0)];
}

/** User and system time of a process with its threads. */
function cpuMs(words: readonly string[]): number {
  const tell = `process.once("exit", () => { const { user, system } = process.cpuUsage(); console.error("cpu " + (user + system)); });`;
  const { stderr } = spawnSync(process.execPath, ["--import", `data:text/javascript,${tell}`, ...words], {
    encoding: "utf8",
  });
  const [, microseconds] = /.*cpu (\d+)/s.exec(stderr) ?? [];
  if (microseconds === undefined) throw new Error(`${words.join(" ")} said nothing: ${stderr}`);
  return Number(microseconds) / 1000;
}

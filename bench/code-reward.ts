/**
 * The code reward: programs per second in the sandboxes, with and without standing workers, and what the reference solutions
 * of HumanEval and MBPP score.
 *
 * node --import tsx bench/code-reward.ts [folder with HumanEval.jsonl and mbpp.jsonl]
 * Bar: 50 rewards per second. A row of a data set whose reference does not pass its own tests is printed with the reason.
 */
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { JsonValue } from "../src/flow/prompt.ts";
import { codeReward } from "../src/rewards/code/code-reward.ts";
import { createJavaScriptSandbox } from "../src/sandbox/javascript-sandbox.ts";
import { createPythonSandbox } from "../src/sandbox/python-sandbox.ts";
import type { Sandbox } from "../src/sandbox/sandbox.ts";
import { printTable, writeResult } from "./report.ts";

const bar = 50;
const numWorkers = availableParallelism();
const folder = process.argv[2] ?? fileURLToPath(new URL("../../shared/data/code", import.meta.url));

const speeds = [
  await measureSpeed("python, standing workers", await createPythonSandbox({ numWorkers }), "print(1)", 1000),
  await measureSpeed(
    "python, a sandbox per run",
    await createPythonSandbox({ numWorkers, runsPerWorker: 1 }),
    "print(1)",
    100,
  ),
  await measureSpeed(
    "javascript, standing workers",
    await createJavaScriptSandbox({ numWorkers }),
    "console.log(1)",
    1000,
  ),
];
printTable(
  `Programs that print 1, ${numWorkers} at a time`,
  ["sandbox", "runs", "runs/s", "ms each, one at a time"],
  speeds.map(({ name, runs, perSecond, aloneMs }) => [name, String(runs), perSecond.toFixed(0), aloneMs.toFixed(2)]),
);

const sets = existsSync(folder)
  ? [await scoreReferences("HumanEval.jsonl", "canonical_solution"), await scoreReferences("mbpp.jsonl", "code")]
  : [];
if (sets.length === 0) console.log(`\nNo data sets at ${folder}: only the speed was measured.`);
else {
  printTable(
    "Reference solutions",
    ["data set", "rows", "score 1", "rewards/s"],
    sets.map(({ name, rows, passed, perSecond }) => [name, String(rows), String(passed), perSecond.toFixed(0)]),
  );
  for (const { failures } of sets) for (const line of failures) console.log(line);
}
const slowest = Math.min(...[speeds[0]!, ...sets].map(({ perSecond }) => perSecond));
console.log(`\nSlowest: ${slowest.toFixed(0)}/s, ${slowest >= bar ? "above" : "BELOW"} the bar of ${bar}/s.`);
writeResult("code-reward", { bar, numWorkers, speeds, sets });

async function measureSpeed(name: string, sandbox: Sandbox, code: string, runs: number) {
  // Every worker is started before the clock is.
  await Promise.all(Array.from({ length: numWorkers }, () => sandbox.run({ code })));
  const aloneMs =
    (await time(async () => {
      for (let i = 0; i < runs / 10; i++) await expectOk(sandbox, code);
    })) /
    (runs / 10);
  const together = await time(() => Promise.all(Array.from({ length: runs }, () => expectOk(sandbox, code))));
  await sandbox.close();
  return { name, runs, perSecond: (runs * 1000) / together, aloneMs };
}

async function expectOk(sandbox: Sandbox, code: string): Promise<void> {
  const { kind } = await sandbox.run({ code });
  if (kind !== "ok") throw new Error(`a program that prints ended as ${kind}`);
}

async function scoreReferences(name: string, solutionKey: string) {
  const rows: Record<string, JsonValue>[] = readFileSync(join(folder, name), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const reward = await codeReward.build(codeReward.options.parse({ numWorkers }));
  const failures: string[] = [];
  const tookMs = await time(() =>
    Promise.all(
      rows.map(async (row) => {
        const prompt = { id: `${row.task_id}`, domain: "code", seed: 0, messages: [], truth: row, extra: {} };
        const input = { prompt, messages: [], numReplyTokens: 0, isTruncated: false };
        const reply = `${row[solutionKey]}`;
        const { value, explanation } = await reward.score({ ...input, reply }, new AbortController().signal);
        if (value !== 1) failures.push(`${name} ${row.task_id}: ${explanation}`);
      }),
    ),
  );
  await reward.close?.();
  const passed = rows.length - failures.length;
  return { name, rows: rows.length, passed, perSecond: (rows.length * 1000) / tookMs, failures };
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

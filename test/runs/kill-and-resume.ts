/**
 * Trains a small run in processes that are killed at drawn moments, until one comes to the end.
 *
 * In: a folder and the moments. Out: everything that the run leaves behind that must not depend on having been killed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Random } from "../../src/random/random.ts";
import { compileScript } from "../compile-script.ts";

/** Milliseconds after a process first did something: made its model, began to write a checkpoint, or completed one. */
export interface Kill {
  readonly after: "model" | "writing" | "saved";
  readonly delayMs: number;
}

/** What a run leaves behind. */
export interface Remains {
  /** The weights at the end, as bytes in hexadecimal. */
  readonly weights: string;
  /** The metrics of every step by kind and step, without those that are times. */
  readonly metrics: Readonly<Record<string, unknown>>;
  readonly loop: unknown;
  /** Kills that hit: the others came after the end of their process. */
  readonly numKilled: number;
}

/** One of each moment. The model is there when the warm start begins; a checkpoint takes some milliseconds. */
export function drawKills(random: Random): Kill[] {
  const spans = { model: 400, writing: 12, saved: 150 };
  return (["model", "writing", "saved"] as const).map((after) => ({ after, delayMs: random.uniform() * spans[after] }));
}

/** Starts a run file of this folder, whose run is named "resume", in `root` as often as it takes, and kills all but the last process. */
export async function killAndResume(root: string, kills: readonly Kill[], runFile = "resume-run.ts"): Promise<Remains> {
  let numKilled = 0;
  for (const kill of kills) {
    if (!(await runKilled(root, kill, runFile))) break;
    numKilled++;
  }
  await run(root, runFile);
  return { ...readRemains(join(root, "resume")), numKilled };
}

async function run(root: string, runFile: string): Promise<void> {
  const child = await start(root, runFile);
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`The run ended with code ${code}.`);
}

/** Whether the kill came before the end. */
async function runKilled(root: string, { after, delayMs }: Kill, runFile: string): Promise<boolean> {
  const folder = join(root, "resume");
  const before = new Set(happened(folder, after));
  const child = await start(root, runFile);
  const exit = once(child, "exit");
  const watch = setInterval(() => {
    if (happened(folder, after).every((one) => before.has(one))) return;
    clearInterval(watch);
    setTimeout(() => child.kill("SIGKILL"), delayMs);
  }, 1);
  const [code, signal] = await exit;
  clearInterval(watch);
  if (code !== 0 && signal !== "SIGKILL") throw new Error(`The run ended with code ${code}.`);
  return signal === "SIGKILL";
}

async function start(root: string, runFile: string): Promise<ChildProcess> {
  const child = await compileScript(new URL("resume-child.ts", import.meta.url));
  const file = fileURLToPath(new URL(runFile, import.meta.url));
  return spawn(process.execPath, [child, root, file], { stdio: ["ignore", "ignore", "inherit"] });
}

/** What is there of a kind, each with its inode: a folder that was removed and made again is another one. */
function happened(folder: string, after: Kill["after"]): string[] {
  const place = after === "model" ? join(folder, "model") : join(folder, "checkpoints");
  if (!existsSync(place)) return [];
  const isMeant = (name: string) =>
    after === "model" ? name === "model.safetensors" : (after === "writing") === name.endsWith(".writing");
  return readdirSync(place)
    .filter(isMeant)
    .map((name) => `${name} ${statSync(join(place, name), { throwIfNoEntry: false })?.ino}`);
}

/** What a run has left in its folder. */
export function readRemains(folder: string): Omit<Remains, "numKilled"> {
  const last = join(folder, "checkpoints", readdirSync(join(folder, "checkpoints")).sort().at(-1)!);
  const weights = readdirSync(join(last, "model")).find((name) => name.endsWith(".safetensors"))!;
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
  const records = lines.map((line) => JSON.parse(line) as { step: number; kind: string; metrics: object });
  const isTime = (name: string) => /(^|\/)(time|throughput|idle|memory)\/|^sync\/ms$/.test(name);
  return {
    weights: readFileSync(join(last, "model", weights)).toString("hex"),
    metrics: Object.fromEntries(
      records.map(({ kind, step, metrics }) => [
        `${kind} ${step}`,
        Object.fromEntries(Object.entries(metrics).filter(([name]) => !isTime(name))),
      ]),
    ),
    loop: JSON.parse(readFileSync(join(last, "loop.json"), "utf8")),
  };
}

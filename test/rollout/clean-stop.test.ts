/** SIGINT at any moment of a rollout: the process ends by itself, and leaves no process and no torn file behind. */
import { spawn } from "node:child_process";
import { on, once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Random } from "../../src/random/random.ts";
import { compileScript } from "../compile-script.ts";
import { descendants } from "../sandbox/descendants.ts";
import { skipNote, skipReason } from "../sandbox/python-availability.ts";

const script = await compileScript(new URL("stop-child.ts", import.meta.url));
const random = new Random(11);
const moments = ["started", "rolling"].flatMap((after) =>
  Array.from({ length: 5 }, () => [random.integer(800), after] as const),
);

test.each(moments)(`a rollout that gets SIGINT %i ms after it says %s ends cleanly${skipNote}`, async (ms, after) => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-stop-"));
  const run = join(folder, "run");
  const sandbox = skipReason === null ? "sandbox" : "no-sandbox";
  const child = spawn(process.execPath, [script, run, sandbox], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (data: Buffer) => {
    errors += data.toString();
  });
  const exit = once(child, "exit");
  await said(child.stdout, after);
  await sleep(ms);
  const before = descendants(child.pid!);
  child.kill("SIGINT");
  const [code, signal] = await exit;

  expect({ code, signal, errors }).toEqual({ code: 0, signal: null, errors: "" });
  await expect.poll(() => before.filter((pid) => existsSync(`/proc/${pid}`)), { timeout: 5000 }).toEqual([]);
  expect(JSON.parse(readFileSync(join(run, "run.json"), "utf8"))).toMatchObject({ status: "interrupted" });
  const files = readdirSync(run, { recursive: true, encoding: "utf8" });
  expect(files.filter((name) => name.endsWith(".writing"))).toEqual([]);
  const records = files.filter((one) => one.endsWith(".jsonl"));
  if (after === "rolling") expect(records).toContain("trajectories/step-000001.jsonl");
  for (const name of records) {
    const text = readFileSync(join(run, name), "utf8");
    expect(text.endsWith("\n"), name).toBe(true);
    for (const line of text.split("\n").slice(0, -1)) expect(JSON.parse(line)).toBeTypeOf("object");
  }
  rmSync(folder, { recursive: true });
});

async function said(stream: Readable, word: string): Promise<void> {
  let text = "";
  for await (const [data] of on(stream, "data")) {
    text += String(data);
    if (text.includes(word)) return;
  }
}

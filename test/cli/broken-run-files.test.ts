/** Every mistake in a run file is told in one line, with the key and what to do, before anything expensive starts. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { runCli } from "../../src/cli/run-cli.ts";
import { brokenRunFiles } from "./broken-run-files.ts";
import { exampleRun } from "./example-run.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-broken-"));
const lines: string[] = [];

beforeAll(async () => {
  // The first command loads libtorch and everything that names options.
  await import("../../src/run/prepare-run.ts");
});
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.restoreAllMocks());

async function train(file: string, text: string, flags: readonly string[] = []): Promise<number> {
  const path = join(folder, file);
  writeFileSync(path, text);
  lines.length = 0;
  vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(line));
  vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
  return runCli(["train", path, "--plan", ...flags]);
}

test("there are at least fifty, and each is its own", () => {
  expect(brokenRunFiles.length).toBeGreaterThanOrEqual(50);
  expect(new Set(brokenRunFiles.map(({ name }) => name)).size).toBe(brokenRunFiles.length);
});

test("the file that they are made from is fine", async () => {
  expect(await train("fine.json", JSON.stringify(exampleRun))).toBe(0);
  expect(lines[0]).toContain("4 prompts x 4 samples = 16 trajectories per step");
});

describe("a run file with one mistake", () => {
  test.each(brokenRunFiles)("$name", async ({ name, file, text, flags, says }) => {
    const started = performance.now();
    const code = await train(`${name}-${file}`, text, flags);
    const elapsed = performance.now() - started;
    expect(lines).toHaveLength(1);
    const [line = ""] = lines;
    expect(line).toMatch(/^error: /);
    expect(line.split("\n")).toHaveLength(1);
    for (const part of says) expect(line).toContain(part);
    expect(code).toBe(2);
    expect(elapsed).toBeLessThan(3000);
  });
});

test("a file that is not there", async () => {
  lines.length = 0;
  vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(line));
  expect(await runCli(["train", join(folder, "gone.ts")])).toBe(2);
  expect(lines[0]).toMatch(/The run file .*gone\.ts does not exist/);
});

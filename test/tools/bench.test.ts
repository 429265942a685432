/** What the benchmarks share: where results go, and the table of them. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { writeQuietResult } from "../../bench/report.ts";

const load = vi.hoisted(() => ({ average: 0 }));
vi.mock("node:os", async (original) => ({
  ...(await original<typeof import("node:os")>()),
  loadavg: () => [load.average, 0, 0],
}));

const folder = mkdtempSync(join(tmpdir(), "reroll-bench-"));
afterAll(() => rmSync(folder, { recursive: true }));

function bench(...words: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", "tsx", ...words], { encoding: "utf8" });
  return { status, stdout, stderr };
}

test("times of a machine that others use are printed and not kept", () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const file = new URL("../../bench/results/quiet-test.json", import.meta.url);
  try {
    load.average = 1000;
    writeQuietResult("quiet-test", {});
    expect(log.mock.calls.flat().join("")).toContain("not written: the load average is 1000.0");
    expect(existsSync(file)).toBe(false);
    load.average = 0;
    writeQuietResult("quiet-test", {});
    expect(existsSync(file)).toBe(true);
  } finally {
    rmSync(file, { force: true });
    log.mockRestore();
  }
});

test("the time of the controller asks for a model in one line", () => {
  expect(bench("bench/controller-step.ts")).toEqual({
    status: 2,
    stdout: "",
    stderr: "Usage: npm run bench -- controller-step --model <folder of a chat model>\n",
  });
});

test("a row of the table that says nothing of itself has the name of its file", () => {
  writeFileSync(join(folder, "gpu-one.json"), JSON.stringify({ msPerStep: 2 }));
  writeFileSync(join(folder, "gpu-two.json"), JSON.stringify({ results: [{ what: "a step", msPerStep: 3 }] }));
  expect(bench("bench/gpu/summary.ts", folder).stdout.replaceAll(/ {3,}/g, "  ")).toBe(
    "\ngpu-one, \n  gpu-one  2.00 ms\n\ngpu-two, \n  a step  3.00 ms\n",
  );
});

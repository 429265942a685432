/** `reroll dashboard` as a person runs it. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const recorded = fileURLToPath(new URL("../../fixtures/run", import.meta.url));
const words = (...args: string[]) => ["--import", import.meta.resolve("tsx"), main, "dashboard", ...args];

test("it prints an address that answers, opened at the run that was named, and ends with Ctrl-C", async () => {
  const child = spawn(process.execPath, words(`${recorded}/sokoban`, "--port", "0"));
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const [, root, url] = /^Runs of (.+): (http:\S+)#\/runs\/sokoban\n$/.exec(line.toString()) ?? [];
  expect(root).toBe(recorded);
  const answer = (await (await fetch(`${url}api/runs`)).json()) as { runs: readonly { key: string }[] };
  expect(answer.runs.map(({ key }) => key).sort()).toEqual(["frozen-lake", "sokoban"]);
  child.kill("SIGINT");
  expect(await once(child, "exit")).toEqual([0, null]);
});

test("without a token it refuses an address that others reach", () => {
  const { status, stderr } = spawnSync(process.execPath, words(recorded, "--host", "0.0.0.0"), { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^error: --host 0\.0\.0\.0 lets anyone .* Add --token/);
});

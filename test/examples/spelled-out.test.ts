/** The loops that are spelled out in one file run, and learn. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);

test("grpo-loop.ts learns which of two digits is larger", async () => {
  const { stdout } = await run("node", ["--import", "tsx", "examples/spelled-out/grpo-loop.ts", "20"]);
  const rewards = [...stdout.matchAll(/reward ([\d.]+)/g)].map((match) => Number(match[1]));
  expect(rewards).toHaveLength(20);
  expect(rewards[0]).toBeLessThan(0.3);
  expect(rewards.at(-1)).toBeGreaterThan(0.6);
});

test("grpo-loop.ts stays under 200 lines", () => {
  expect(readFileSync("examples/spelled-out/grpo-loop.ts", "utf8").split("\n").length).toBeLessThan(200);
});

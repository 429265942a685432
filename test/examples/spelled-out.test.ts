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

test("ppo-cartpole.ts learns to balance for longer", async () => {
  const { stdout } = await run("node", ["--import", "tsx", "examples/spelled-out/ppo-cartpole.ts", "20480"]);
  const returns = [...stdout.matchAll(/return ([\d.]+)/g)].map((match) => Number(match[1]));
  expect(returns[0]).toBeLessThan(40);
  expect(returns.at(-1)).toBeGreaterThan(100);
});

test.each(["grpo-loop.ts", "ppo-cartpole.ts"])("%s stays under 200 lines", (name) => {
  expect(readFileSync(`examples/spelled-out/${name}`, "utf8").split("\n").length).toBeLessThan(200);
});

/** `reroll dashboard` and `reroll train --dashboard` as a person runs them; all at once, because starting takes them longest. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { test } from "vitest";
import type { RunsAnswer, SummaryAnswer } from "../../src/dashboard/answers.ts";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const recorded = fileURLToPath(new URL("../../fixtures/run", import.meta.url));

function reroll(...words: readonly string[]) {
  const child = spawn(process.execPath, [main, ...words]);
  return { child, ended: once(child, "exit") };
}

/** What a pattern finds in the output, as soon as it is there. */
async function findIn({ child }: ReturnType<typeof reroll>, pattern: RegExp): Promise<RegExpExecArray> {
  let output = "";
  for await (const part of child.stdout.iterator({ destroyOnReturn: false })) {
    output += String(part);
    const found = pattern.exec(output);
    if (found === null) continue;
    // What follows is read and left, or the child would wait for someone to read it.
    child.stdout.resume();
    return found;
  }
  throw new Error(`${pattern} is not in the output: ${output}`);
}

test.concurrent("it prints an address that answers, opened at the run that was named, and ends with Ctrl-C", async ({
  expect,
}) => {
  const command = reroll("dashboard", `${recorded}/sokoban`, "--port", "0");
  const [, root, url] = await findIn(command, /^Runs of (.+): (http:\S+)#\/runs\/sokoban\n$/);
  expect(root).toBe(recorded);
  const answer = (await (await fetch(`${url}api/runs`)).json()) as RunsAnswer;
  expect(answer.runs.map(({ key }) => key).sort()).toEqual(["frozen-lake", "sokoban"]);
  command.child.kill("SIGINT");
  expect(await command.ended).toEqual([0, null]);
});

test.concurrent("without a token it refuses an address that others reach", async ({ expect }) => {
  const { child, ended } = reroll("dashboard", recorded, "--host", "0.0.0.0");
  expect(await text(child.stderr)).toMatch(/^error: --host 0\.0\.0\.0 lets anyone .* Add --token/);
  expect(await ended).toEqual([2, null]);
});

test.concurrent("beside a run, the page answers while it goes on, lists it, and ends with it", async ({ expect }) => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-train-"));
  const runFile = join(folder, "run.json");
  const run = {
    ...{ name: "watched", device: "cpu", model: { preset: "nano" }, loop: { type: "sync", steps: 100_000 } },
    envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", answerTags: null } },
    rollout: { groupsPerStep: 1, groupSize: 2, contextLength: 64, sampling: { maxTokens: 1 } },
    training: { optimizer: { lr: 0.001 } },
    tracking: { folder: join(folder, "runs"), tensorboard: false },
  };
  writeFileSync(runFile, JSON.stringify(run));
  const command = reroll("train", runFile, "--dashboard");
  try {
    const [, url] = await findIn(command, /^dashboard: (http:\S+)$/m);
    expect(await (await fetch(url!)).text()).toContain("<title>reroll</title>");
    const ask = async (path: string) => (await fetch(`${url}api/runs${path}`)).json();
    const patience = { timeout: 40_000, interval: 100 };
    await expect
      .poll(async () => ((await ask("")) as RunsAnswer).runs, patience)
      .toMatchObject([{ key: "watched", info: { status: "running", recipe: "grpo", model: "nano" } }]);
    await expect
      .poll(async () => ((await ask("/watched/summary")) as SummaryAnswer).lastStep, patience)
      .toBeGreaterThan(0);
    command.child.kill("SIGINT");
    await command.ended;
    await expect(fetch(url!)).rejects.toThrow();
    expect(JSON.parse(readFileSync(join(folder, "runs/watched/run.json"), "utf8")).status).toBe("interrupted");
  } finally {
    command.child.kill("SIGKILL");
    await command.ended;
    rmSync(folder, { recursive: true });
  }
});

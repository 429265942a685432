/** Threads of environments and rewards that are lost, or throw, as runs and evaluations of a run file see them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { evaluateModel } from "../../src/run/evaluate-model.ts";
import { findModel } from "../../src/run/find-model.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { runTraining } from "../../src/run/run-training.ts";
import { inFolder } from "./lake-run.ts";

const runFile = join(import.meta.dirname, "lost-threads-run.ts");

test("of many episodes in two threads, those fail that hang; errors outside of calls are in the log, by name; eval does the same", () =>
  inFolder(async (root) => {
    const prepared = await prepareRun(runFile, [`tracking.folder=${JSON.stringify(root)}`]);
    const { signal } = new AbortController();
    const options = { signal, version: "0", environment: {}, runFile, command: "reroll", console: null };
    await runTraining(prepared, options);
    const folder = join(root, "lost");

    const lines = readFileSync(join(folder, "trajectories/step-000001.jsonl"), "utf8").trim().split("\n");
    const trajectories = lines.map((line) => JSON.parse(line));
    const failed = trajectories.filter(({ end }) => end.kind === "failed");
    const isEndless = ({ prompt }: { prompt: { id: string } }) => Number(prompt.id.slice(1)) % 16 === 1;
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.every(isEndless)).toBe(true);
    const finished = trajectories.filter(({ end }) => end.kind === "completed");
    expect(finished).toHaveLength(16);
    for (const { turns } of finished) expect(turns).toHaveLength(3);

    const log = readFileSync(join(folder, "log.txt"), "utf8");
    expect(log).toContain('Env "envs.counting" threw outside of its calls: thrown in a timer');
    expect(log).toContain('Reward "loose" threw outside of its calls: nobody waits for this');

    const told: string[] = [];
    const report = (text: string) => void told.push(text);
    await evaluateModel(findModel(folder, undefined), prepared.config, { signal, runFile, report });
    expect(told).toContain('Reward "loose" threw outside of its calls: nobody waits for this');
  }));

/** Code of others cannot take a run down: runs of hostile run files, as `reroll train` makes them, finish all their steps. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { inFolder } from "./lake-run.ts";
import { trainSmall } from "./small-run.ts";

const repository = join(import.meta.dirname, "../..");

/** Rejects unless the process ends by itself with code 0. */
async function train(runFile: string, root: string) {
  const words = ["dist/cli/main.js", "train", join("test/runs", runFile)];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, words, {
    ...{ cwd: repository, env: { ...process.env, HOSTILE_FOLDER: root }, timeout: 120_000, killSignal: "SIGKILL" },
  });
  return `${stdout}${stderr}`;
}

const linesOf = (path: string) => readFileSync(path, "utf8").trim().split("\n");
const infoOf = (folder: string) => JSON.parse(readFileSync(join(folder, "run.json"), "utf8"));

test(
  "environments and rewards that throw in timers, exit, loop forever, return nonsense or replace parts of the language fail their own samples and prompts",
  () =>
    inFolder(async (root) => {
      const said = await train("hostile-run.ts", root);
      const folder = join(root, "hostile");
      expect(infoOf(folder)).toMatchObject({ status: "finished", error: null });
      const steps = linesOf(join(folder, "metrics.jsonl")).map((line) => JSON.parse(line).metrics);
      expect(steps).toHaveLength(1);
      for (const metrics of steps) {
        expect(metrics["rollout/failed_share"]).toBeGreaterThan(0.2);
        expect(metrics["rollout/failed_share"]).toBeLessThan(1);
        expect(metrics).toMatchObject({ "train/skipped_updates": 0 });
        // Of every three prompts one cannot be made: by a throw, an exit, a loop, or since nothing comes back.
        expect(metrics["rollout/dropped_prompts"]).toBeGreaterThanOrEqual(4);
      }
      expect(said).toContain("thrown in a timer");
      expect(said).toMatch(/makePrompt\(\d+\) of the environment "hostile" failed: .*\. It is left out\./);
      expect(said).toMatch(
        /Env "envs\.hostile" replaced [\w.]+, which everything in its thread is made of\. It was put back\./,
      );
    }),
  130_000,
);

test("a makePrompt that fails every time ends the run after a few prompts, with its name, a seed and what it said", async () => {
  const makePrompt = () => {
    throw new Error("no prompt today");
  };
  const run = trainSmall({
    envs: { odd: { type: "custom", makePrompt, makeEnv: () => ({ start: makePrompt, step: makePrompt }) } },
    rollout: { groupsPerStep: 1, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 1 },
  });
  await expect(run).rejects.toThrow(
    /^16 prompts in a row could not be made, the last one with: makePrompt\(\d+\) of the environment "odd" failed: no prompt today$/,
  );
});

test(
  "an agent that throws in timers, exits, replaces parts of the language or hangs fails its own samples, and the process ends with the run",
  () =>
    inFolder(async (root) => {
      const said = await train("hostile-agent-run.ts", root);
      const folder = join(root, "agent");
      expect(infoOf(folder)).toMatchObject({ status: "finished", error: null });
      expect(said).toContain('The agent of "general" threw outside of its call: thrown in a timer');
      expect(said).toContain("process.exit(7) was called");
      expect(said).toContain('The agent of "general" replaced Array.prototype.push');
      const trajectories = linesOf(join(folder, "trajectories/step-000001.jsonl"));
      expect(trajectories.some((line) => line.includes("1e+300"))).toBe(true);
      // What one of them replaces before it waits is back before the others, and the run, go on.
      const endsOf = (kind: string) => {
        const records = trajectories.map((line) => JSON.parse(line));
        return new Set(records.filter(({ prompt }) => prompt.id === `rows:${kind}`).map(({ end }) => end.kind));
      };
      for (const kind of ["calm", "gap"]) expect(endsOf(kind)).toEqual(new Set(["truncated"]));
    }),
  130_000,
);

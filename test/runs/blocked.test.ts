/** A run whose main thread is blocked by code of others says so, can be stopped, and says in the end what happened. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inFolder } from "./lake-run.ts";

const repository = join(import.meta.dirname, "../..");

/** Trains in a process of its own, and tells of each piece that it writes to standard error. */
function train(
  root: string,
  episodeSeconds: number,
  onWords: (words: string, kill: (name: NodeJS.Signals) => void) => void,
) {
  const words = ["dist/cli/main.js", "train", "test/runs/blocked-run.ts"];
  const env = { ...process.env, BLOCKED_FOLDER: root, BLOCKED_SECONDS: String(episodeSeconds) };
  return new Promise<{ code: unknown; said: string }>((resolve) => {
    const options = { cwd: repository, env, timeout: 100_000, killSignal: "SIGKILL" } as const;
    const child = execFile(process.execPath, words, options, (error, _, said) =>
      resolve({ code: error === null ? 0 : (error.code ?? error.signal), said }),
    );
    child.stderr?.on("data", (text: string) => onWords(text, (name) => void child.kill(name)));
  });
}

const infoOf = (root: string) => JSON.parse(readFileSync(join(root, "blocked/run.json"), "utf8"));

test(
  "an agent that loops forever is named, and SIGTERM ends its run in seconds with the record closed",
  () =>
    inFolder(async (root) => {
      const { code, said } = await train(root, 600, (words, kill) => {
        if (words.includes("has blocked the process")) kill("SIGTERM");
      });
      expect(said).toMatch(
        /The agent of "general" \(at loopForever .*blocked-run\.ts.*\) has blocked the process for \d+ s/,
      );
      expect(code).toBe(143);
      expect(infoOf(root)).toMatchObject({
        status: "interrupted",
        error: expect.stringMatching(/The agent of "general" .* blocked the process\. The run was ended by SIGTERM/),
        endedAt: expect.any(String),
      });
      expect(readFileSync(join(root, "blocked/log.txt"), "utf8")).toContain("has blocked the process");
    }),
  110_000,
);

test(
  "a call that blocks for longer than an episode may take has failed the run",
  () =>
    inFolder(async (root) => {
      const { code } = await train(root, 1, () => {});
      expect(code).toBe(1);
      expect(infoOf(root)).toMatchObject({
        status: "failed",
        error: expect.stringContaining("The run was ended because 1 s were over"),
      });
    }),
  110_000,
);

/** `reroll serve-environments` as a person starts it. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { processTree } from "../../bench/process-tree.ts";
import { callReroll } from "../cli/call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-serve-envs-"));
const runFile = join(folder, "run.json");
writeFileSync(
  runFile,
  JSON.stringify({
    model: { preset: "nano" },
    envs: { lake: { type: "frozen-lake" } },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 1 },
  }),
);

test("it says where it listens, needs its key, is started again when it is killed, and ends with a signal", async () => {
  const words = ["serve-environments", runFile, "--port", "0", "--api-key", "secret", "--set", "envs.lake.maxTurns=4"];
  const child = spawn(process.execPath, ["dist/cli/main.js", ...words, "--restarts", "1"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = new Promise<number | null>((resolve) => child.on("exit", resolve));
  let said = "";
  const listening = () =>
    new Promise<string>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => {
        said += chunk.toString();
        const found = /listening on (\S+)/.exec(said)?.[1];
        if (found !== undefined) resolve(found);
      });
      void ended.then((code) => reject(new Error(`it ended with ${code}: ${said}`)));
    });
  await listening();
  said = "";
  process.kill(processTree(child.pid!).find(({ command }) => command.includes("--supervised"))!.pid, "SIGKILL");
  const url = await listening();
  expect(said).toContain("environments: lake; rewards: none");
  expect((await fetch(`${url}/v1/environments`)).status).toBe(401);
  const answer = await fetch(`${url}/v1/environments`, { headers: { authorization: "Bearer secret" } });
  expect(await answer.json()).toEqual({ environments: ["lake"], scores: false, sessions: 0 });
  child.kill("SIGTERM");
  expect(await ended).toBe(0);
  rmSync(folder, { recursive: true });
});

test("an address that other machines reach needs a key", async () => {
  const { code, stderr } = await callReroll("serve-environments", "run.json", "--host", "0.0.0.0");
  expect(code).toBe(2);
  expect(stderr).toContain("Add --api-key-file <file>");
});

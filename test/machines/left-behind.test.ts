/** Workers that are killed join again, and those whose parent is killed end, so that whoever is started in their place may join. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { readVersion } from "../../src/cli/read-version.ts";
import { Machines } from "../../src/machines/machines.ts";
import { ending, startReroll, startShell } from "../cli/run-reroll.ts";

// Whole programs are started, which takes long where others use the cores too.
vi.setConfig({ testTimeout: 120_000 });

const token = "a token of the tests";
const folder = mkdtempSync(join(tmpdir(), "reroll-left-behind-"));
afterAll(() => rmSync(folder, { recursive: true }));
const opened: Machines[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((machines) => machines.close()));
});

async function listen(port = 0): Promise<{ machines: Machines; words: string[] }> {
  const place = { host: "127.0.0.1", port, token, version: readVersion() };
  const machines = await Machines.listen({
    ...{ ...place, numWorkers: 1, timeoutMs: 100_000, report: () => {}, now: Date.now },
  });
  opened.push(machines);
  return { machines, words: ["worker", "--join", `127.0.0.1:${machines.port}`, "--restarts", "3"] };
}

test("a worker whose watching parent is killed ends at once, and its controller knows", async () => {
  const { machines, words } = await listen();
  const parent = startReroll(words, { cwd: folder, env: { REROLL_TOKEN: token } });
  const ended = ending(parent);
  await machines.all();
  parent.kill("SIGKILL");
  await expect(machines.lost).rejects.toMatchObject({ code: "MACHINE_LOST" });
  // Its output ends with the last process that holds it.
  expect((await ended).stderr).toContain("The process that watched this worker is gone.");
});

test("where torchrun is killed, what it has started ends too", async () => {
  const { machines, words } = await listen();
  // The words after the command keep the shell from becoming the command.
  const agent = startShell(`$REROLL ${words.join(" ")}; true`, {
    cwd: folder,
    env: { REROLL_TOKEN: token, TORCHELASTIC_RUN_ID: "none" },
  });
  const ended = ending(agent);
  await machines.all();
  agent.kill("SIGKILL");
  await expect(machines.lost).rejects.toMatchObject({ code: "MACHINE_LOST" });
  expect((await ended).stderr).toContain("What started this process is gone, and so it ends too.");
});

test("a worker that had joined is started again at once, and as often as it takes", async () => {
  const { machines, words } = await listen();
  const parent = startReroll([...words.slice(0, -1), "1"], { cwd: folder, env: { REROLL_TOKEN: token } });
  const ended = ending(parent);
  let said = "";
  parent.stderr!.on("data", (chunk: Buffer) => (said += `${chunk}`));
  const { port } = machines;
  let controller = machines;
  for (let numKilled = 0; numKilled < 3; numKilled++) {
    await vi.waitFor(() => expect(said.split("Joined the controller")).toHaveLength(numKilled + 2), 60_000);
    for (const pid of childrenOf(parent.pid!)) process.kill(pid, "SIGKILL");
    await expect(controller.lost).rejects.toMatchObject({ code: "MACHINE_LOST" });
    await controller.close();
    controller = (await listen(port)).machines;
  }
  await controller.all();
  parent.kill("SIGKILL");
  expect((await ended).stderr).not.toContain("Starting it again in");
});

function childrenOf(pid: number): readonly number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
}

test("a worker that waits for its controller ends with the first signal", async () => {
  const words = ["worker", "--join", "127.0.0.1:1", "--join-timeout", "100", "--restarts", "3"];
  const worker = startReroll(words, { cwd: folder, env: { REROLL_TOKEN: token } });
  const ended = ending(worker);
  worker.stderr!.on("data", (chunk: Buffer) => {
    if (`${chunk}`.includes("Waiting for the controller")) worker.kill("SIGTERM");
  });
  expect(await ended).toMatchObject({ code: 143 });
});

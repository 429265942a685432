/** Runs whose ranks are in several processes that find each other by address and token, as on several machines. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { readVersion } from "../../src/cli/read-version.ts";
import { introduce } from "../../src/machines/handshake.ts";
import { ThreadingHost } from "../../src/machines/machine-host.ts";
import { Machines } from "../../src/machines/machines.ts";
import { Frames } from "../../src/workers/frames.ts";
import { Peer } from "../../src/workers/peer.ts";
import { socketTransport } from "../../src/workers/socket-transport.ts";
import { callReroll } from "../cli/call-reroll.ts";
import { ending, startReroll } from "../cli/run-reroll.ts";
import { makeCertificate } from "../machines/certificate.ts";
import { readWeights } from "./small-run.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-machines-"));
afterAll(() => rmSync(folder, { recursive: true }));

// Three starts of the whole program, which take long where others use the cores too.
vi.setConfig({ testTimeout: 240_000 });

const runFile = join(folder, "run.json");
const run = {
  name: "lake",
  device: "cpu",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", size: 3, maxTurns: 2, answerTags: null } },
  rollout: { groupsPerStep: 4, groupSize: 4, context: "turn", contextLength: 48, sampling: { maxTokens: 2 } },
  // An epsilon above the rounding of gradients: AdamW divides by their size.
  training: { optimizer: { lr: 1e-3, eps: 1e-3 }, threads: 1 },
  engine: { threads: 1 },
  loop: { type: "sync", steps: 1_000_000 },
  checkpoint: { every: 1 },
  tracking: { folder: join(folder, "spread"), tensorboard: false, trajectoriesEvery: 0 },
};
writeFileSync(runFile, JSON.stringify(run));

const token = "the token of this test";
const launch = (rank: number, port: number) =>
  Object.entries({ RANK: rank, WORLD_SIZE: 2, LOCAL_RANK: 0, MASTER_ADDR: "127.0.0.1", MASTER_PORT: port }).map(
    ([name, value]) => [name, `${value}`] as const,
  );

test("a run that loses its worker says so, goes on with --resume auto and another one, and ends with the weights of one process", async () => {
  // Joined by hand: a worker that knows an address and the token, in a folder of its own.
  const ports = [await freePort(), await freePort()];
  const worker = startReroll(["worker", "--join", `127.0.0.1:${ports[0]}`], {
    cwd: tmpdir(),
    env: { REROLL_TOKEN: token },
  });
  const lostWorker = ending(worker);
  vi.stubEnv("REROLL_TOKEN", token);
  const listening = ["--listen", `127.0.0.1:${ports[0]}`, "--workers", "1"];
  const running = callReroll("train", runFile, ...listening);
  await vi.waitFor(() => expect(lastStep("spread")).toBeGreaterThan(0), { timeout: 120_000, interval: 20 });
  worker.kill("SIGKILL");
  const lost = await running;
  expect(lost.code).toBe(1);
  expect(lost.stderr).toMatch(/error: The worker on \S+ \(process \d+\) (closed|broke) the connection/);
  const proposed = /^next +\S+ reroll train (.*)$/m.exec(lost.stdout)?.[1]?.split(" ") ?? [];
  expect(proposed).toEqual([runFile, "--resume", expect.stringMatching(/spread\/lake$/), ...listening]);
  expect((await lostWorker).stderr).toContain(`Joined the controller at 127.0.0.1:${ports[0]}.`);
  const { status, error } = JSON.parse(readFileSync(join(folder, "spread/lake/run.json"), "utf8"));
  expect([status, error]).toEqual(["failed", expect.stringContaining("The worker on")]);

  // As a launcher starts it: one command everywhere, and variables that say which process this is.
  const steps = `loop.steps=${lastStep("spread") + 1}`;
  const words = ["train", runFile, "--resume", "auto", "--set", steps];
  const second = startReroll(words, {
    cwd: folder,
    env: { REROLL_TOKEN: token, ...Object.fromEntries(launch(1, ports[1]!)) },
  });
  for (const [name, value] of launch(0, ports[1]!)) vi.stubEnv(name, value);
  const resumed = await callReroll(...words);
  vi.unstubAllEnvs();
  expect(resumed.code, resumed.stderr).toBe(0);
  expect(resumed.stdout).toContain("Going on from step");
  expect(await ending(second)).toMatchObject({ code: 0 });

  const alone = await callReroll("train", runFile, "--set", steps, "--set", `tracking.folder=${join(folder, "alone")}`);
  expect(alone.code, alone.stderr).toBe(0);
  const [spread, whole] = [weights("spread"), weights("alone")];
  expect(whole.length).toBeGreaterThan(10_000);
  expect(whole.reduce((most, value, i) => Math.max(most, Math.abs(value - spread[i]!)), 0)).toBeLessThan(1e-5);
});

test("ranks of the run file that no launcher has started are refused before anything is", async () => {
  for (const [name, value] of launch(0, await freePort())) vi.stubEnv(name, value);
  vi.stubEnv("REROLL_TOKEN", token);
  const wrong = await callReroll("train", runFile, "--set", "training.ranks=4");
  vi.stubEnv("REROLL_TOKEN", "short");
  const easy = await callReroll("train", runFile);
  vi.unstubAllEnvs();
  expect(wrong).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("and the run has 2 processes, each for one rank"),
  });
  expect(easy).toMatchObject({ code: 2, stderr: expect.stringContaining("REROLL_TOKEN has 5 characters") });
  const machines = await callReroll(
    "train",
    runFile,
    "--set",
    "training.ranks=2",
    "--set",
    "training.strategy.in=machines",
  );
  expect(machines.stderr).toContain("no other machine can join. Start the run with --listen");
});

test("a worker joins over TLS, by the flags of both commands, and the run ends as any other", async () => {
  const { certFile, keyFile } = makeCertificate(folder);
  const port = await freePort();
  const joining = ["--join", `127.0.0.1:${port}`, "--tls-ca", certFile];
  const worker = startReroll(["worker", ...joining], { cwd: tmpdir(), env: { REROLL_TOKEN: token } });
  const left = ending(worker);
  vi.stubEnv("REROLL_TOKEN", token);
  const listening = ["--listen", `127.0.0.1:${port}`, "--workers", "1", "--tls-cert", certFile, "--tls-key", keyFile];
  const ended = await callReroll("train", runFile, ...listening, "--set", "loop.steps=1", "--name", "encrypted");
  vi.unstubAllEnvs();
  expect(ended.code, ended.stderr).toBe(0);
  expect(await left).toMatchObject({ code: 0, stderr: expect.stringContaining("Joined the controller at") });
});

test("a worker with another token ends with what is wrong, and the controller says it too", async () => {
  const said: string[] = [];
  const machines = await Machines.listen({
    ...{ host: "127.0.0.1", port: 0, token, version: readVersion(), numWorkers: 1, timeoutMs: 5000 },
    ...{ report: (text: string) => void said.push(text), now: Date.now },
  });
  const place = `127.0.0.1:${machines.port}`;
  const ended = await callReroll("worker", "--join", place, "--token", "another token than theirs");
  expect(ended).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("Worker and controller have different tokens. REROLL_TOKEN must be the same"),
  });
  await expect.poll(() => said.join()).toContain("could not join: Worker and controller have different tokens.");
  await machines.close();
});

type Enter = ThreadingHost["enter"];

/** Joins a run as its only worker, and answers as it is told when it is asked whether it sees the folders of the run. */
async function joinWith(port: number, enter: (...asked: [...Parameters<Enter>, Enter]) => Promise<void>) {
  const started: string[] = [];
  class Host extends ThreadingHost {
    override enter(...asked: Parameters<Enter>): Promise<void> {
      return enter(...asked, (...seen) => super.enter(...seen));
    }
    override host(_: number, module: string): Promise<string> {
      started.push(module);
      return Promise.resolve("ended");
    }
  }
  const frames = new Frames(await vi.waitFor(() => openSocket(port), { timeout: 60_000 }));
  const facts = { version: readVersion(), rank: null, host: "n1", pid: 7, device: "cpu", numCores: 1 };
  await introduce(frames, { ...facts, timeMs: Date.now() }, token);
  new Peer(socketTransport(frames, { everyMs: 5000, maxSilentBeats: 60 }), new Host()).announce();
  return started;
}

function openSocket(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port }, () => resolve(socket));
    socket.once("error", reject);
  });
}

test("a worker that does not see the folder of the run ends it before a rank has begun", async () => {
  const port = await freePort();
  vi.stubEnv("REROLL_TOKEN", token);
  const running = callReroll("train", runFile, "--listen", `127.0.0.1:${port}`, "--workers", "1", "--name", "unseen");
  const started = await joinWith(port, (working, shared, folders, look) =>
    look(working, { ...shared, folder: `${shared.folder}-elsewhere` }, folders),
  );
  const ended = await running;
  vi.unstubAllEnvs();
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain("spread/unseen-elsewhere does not exist on the machine");
  expect(started).toEqual([]);
});

test("folders are compared before the controller reads a tokenizer or a model from them", async () => {
  const port = await freePort();
  vi.stubEnv("REROLL_TOKEN", token);
  const running = callReroll("train", runFile, "--listen", `127.0.0.1:${port}`, "--workers", "1", "--name", "early");
  // What is damaged now was not read yet, and ends the run before a rank has begun.
  const started = await joinWith(port, async (_, __, [model]) => writeFileSync(join(model!, "tokenizer.json"), "{"));
  const ended = await running;
  vi.unstubAllEnvs();
  expect(ended.stderr).toContain("tokenizer.json");
  expect(started).toEqual([]);
});

function checkpoints(root: string): string {
  return join(folder, root, "lake/checkpoints");
}

/** The step of the latest checkpoint; 0 where there is none yet. */
function lastStep(root: string): number {
  try {
    return Math.max(
      0,
      ...readdirSync(checkpoints(root)).flatMap((name) => /^step-(\d+)$/.exec(name)?.slice(1).map(Number) ?? []),
    );
  } catch {
    return 0;
  }
}

function weights(root: string): Float32Array {
  return readWeights(join(checkpoints(root), `step-${String(lastStep(root)).padStart(6, "0")}/model`));
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

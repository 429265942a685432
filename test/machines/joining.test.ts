/** A controller and its workers over real sockets: who may join, who may not and why, and how a silent one is found out. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { introduce, type WorkerFacts } from "../../src/machines/handshake.ts";
import { joinController } from "../../src/machines/join-controller.ts";
import { ThreadingHost } from "../../src/machines/machine-host.ts";
import { Machines } from "../../src/machines/machines.ts";
import { Frames } from "../../src/workers/frames.ts";
import { makeCertificate } from "./certificate.ts";

const token = "a token of the tests";
const facts: WorkerFacts = {
  ...{ version: "1.2.3", rank: null, host: "n1", pid: 7, device: "cpu", numCores: 2, timeMs: 1_000_000 },
};
const opened: Machines[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((machines) => machines.close()));
});

type Listening = Parameters<typeof Machines.listen>[0];

async function listen(changes: Partial<Listening> = {}): Promise<{ machines: Machines; said: string[] }> {
  const said: string[] = [];
  const machines = await Machines.listen({
    ...{ host: "127.0.0.1", port: 0, token, version: "1.2.3", numWorkers: 1, timeoutMs: 5000 },
    ...{ report: (text: string) => void said.push(text), now: () => 1_000_000 },
    ...changes,
  });
  opened.push(machines);
  return { machines, said };
}

type Joining = Parameters<typeof joinController>[0];

function joinAs(machines: Machines, worker: Partial<WorkerFacts> = {}, changes: Partial<Joining> = {}) {
  const { port } = machines;
  const place = { host: "127.0.0.1", port, token, timeoutMs: 10_000, report: () => {} };
  const { timeMs, ...others } = { ...facts, ...worker };
  return joinController({ ...place, ...changes, facts: others, now: () => timeMs });
}

test("a worker joins, and is let go when the run is over", async () => {
  const { machines } = await listen();
  const working = joinAs(machines, { device: "cuda:1" });
  const [machine] = await machines.all();
  expect(machine).toMatchObject({ name: "n1 (process 7)", address: "127.0.0.1", device: "cuda:1", numCores: 2 });
  await machines.close();
  await expect(working).resolves.toBeUndefined();
});

test.each([
  ["another version", { version: "1.2.4" }, "The worker on n1 has reroll 1.2.4, and the controller 1.2.3."],
  [
    "a clock that is wrong",
    { timeMs: 1_000_000 - 90_000 },
    "The clock of n1 is 90 seconds behind that of the controller.",
  ],
  ["the controller's rank", { rank: 0 }, "The worker on n1 has rank 0; workers of this run have the ranks 1 to 1."],
])("a worker with %s is refused, and both sides say so", async (_, worker, message) => {
  const { machines, said } = await listen();
  await expect(joinAs(machines, worker)).rejects.toMatchObject({
    code: "JOIN_REFUSED",
    message: expect.stringContaining(message),
  });
  await expect.poll(() => said.join()).toContain(message);
});

test("a worker with another token is turned away, and both sides say so", async () => {
  const { machines, said } = await listen();
  await expect(joinAs(machines, {}, { token: "another token than theirs" })).rejects.toMatchObject({
    code: "KEY_INVALID",
    message: "Worker and controller have different tokens. REROLL_TOKEN must be the same on all machines.",
  });
  await expect.poll(() => said.join()).toContain("could not join: Worker and controller have different tokens.");
});

test("of two workers with one rank the second is told at once, and given up where the first stays", async () => {
  const { machines, said } = await listen({ numWorkers: 2 });
  let first: Promise<void> = Promise.resolve();
  await new Promise<void>((onJoined) => {
    first = joinAs(machines, { rank: 1 }, { onJoined });
  });
  const told: string[] = [];
  const second = joinAs(machines, { rank: 1, pid: 8 }, { timeoutMs: 200, report: (text) => void told.push(text) });
  await expect(second).rejects.toMatchObject({
    code: "RANK_TAKEN",
    message: "Rank 1 is there already: n1 (process 7). Give every process a rank of its own.",
  });
  expect(told).toEqual([
    "Rank 1 is there already: n1 (process 7). Give every process a rank of its own. Asking again for up to 0.2 seconds.",
  ]);
  // It has asked more than once.
  expect(said.filter((text) => text.includes("Rank 1 is there already"))).toHaveLength(1);
  await machines.close();
  await first;
});

test("a worker that was started again before its controller knows that the first is gone joins the next controller", async () => {
  const { machines } = await listen();
  const { port } = machines;
  const lost = joinAs(machines, { rank: 1 });
  await machines.all();
  let hasAsked: () => void = () => {};
  const asked = new Promise<void>((resolve) => {
    hasAsked = resolve;
  });
  const working = joinAs(machines, { rank: 1, pid: 8 }, { report: hasAsked });
  await asked;
  await machines.abandon();
  await expect(lost).rejects.toMatchObject({ code: "CONTROLLER_LOST" });
  const next = await listen({ port });
  expect(await next.machines.all()).toMatchObject([{ name: "n1 (process 8)" }]);
  await next.machines.close();
  await working;
});

test("a run waits only so long, and then says who came and who was refused", async () => {
  const { machines } = await listen({ numWorkers: 2, timeoutMs: 300 });
  const first = joinAs(machines);
  await expect(joinAs(machines, { version: "0.9" })).rejects.toThrow();
  await expect(machines.all()).rejects.toMatchObject({
    code: "JOIN_TIMEOUT",
    message: expect.stringMatching(
      /^2 workers were expected at 127\.0\.0\.1:\d+ within 0\.3 seconds\. There are n1 \(process 7\)\. A worker .* has reroll 0\.9/,
    ),
  });
  await machines.close();
  await first;
});

test("a second controller at the same place, and one on the wrong machine, cannot listen", async () => {
  const { machines } = await listen();
  await expect(listen({ port: machines.port })).rejects.toMatchObject({
    code: "LISTEN_FAILED",
    message: expect.stringContaining("is in use, perhaps by another controller"),
  });
  await expect(listen({ host: "192.0.2.1" })).rejects.toThrow(
    "192.0.2.1 is not an address of this machine. Give --listen one that is; under a launcher, the process with rank 0 must run on the machine that MASTER_ADDR names.",
  );
});

test("a controller that is not there is given up after a while, and a program that is none is told apart", async () => {
  const place = { host: "127.0.0.1", token, facts, now: () => facts.timeMs, timeoutMs: 300, report: () => {} };
  const server = createServer((socket) => void socket.resume().end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await expect(joinController({ ...place, port })).rejects.toMatchObject({ code: "JOIN_REFUSED" });
  await new Promise((resolve) => server.close(resolve));
  await expect(joinController({ ...place, port })).rejects.toMatchObject({
    code: "JOIN_TIMEOUT",
    message: expect.stringContaining(`The controller at 127.0.0.1:${port} could not be reached within 0.3 seconds`),
  });
});

test("a worker says whom it waits for and how long, and joins when the controller is there, with the time of then", async () => {
  const { machines: first } = await listen();
  const { port } = first;
  await first.close();
  const said: string[] = [];
  const report = (text: string) => void said.push(text);
  let timeMs = 1_000_000 - 90_000;
  const place = { host: "127.0.0.1", port, token, timeoutMs: 60_000 };
  const working = joinController({ ...place, facts, now: () => timeMs, report });
  await expect.poll(() => said.length, { timeout: 30_000 }).toBe(1);
  expect(said[0]).toMatch(`Waiting for the controller at 127.0.0.1:${port} for up to 60 seconds: connect ECONNREFUSED`);
  timeMs = 1_000_000;
  const { machines } = await listen({ port });
  await machines.all();
  await machines.close();
  await working;
});

test("a program that takes the connection and says nothing is given as long as a controller that is not there", async () => {
  const taken: Socket[] = [];
  const server = createServer((socket) => void taken.push(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const place = { host: "127.0.0.1", port, token, facts, now: () => facts.timeMs, timeoutMs: 300, report: () => {} };
  await expect(joinController(place)).rejects.toMatchObject({
    code: "JOIN_REFUSED",
    message: expect.stringContaining("The other side did not answer for 0.3 seconds when it was asked who it is."),
  });
  for (const socket of taken) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

test("a program that takes the connection and does not answer with TLS is given as long as a controller that is not there", async () => {
  const taken: Socket[] = [];
  const server = createServer((socket) => void taken.push(socket.on("error", () => {})));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const place = { host: "127.0.0.1", port, token, facts, now: () => facts.timeMs, timeoutMs: 300, report: () => {} };
  await expect(joinController({ ...place, ca: "" })).rejects.toMatchObject({
    code: "JOIN_TIMEOUT",
    message: expect.stringContaining("could not be reached within 0.3 seconds: no answer for 0.3 seconds"),
  });
  for (const socket of taken) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

test("a controller that is too busy to answer is asked again", async () => {
  // The first connection is taken by a program that says nothing, as one that is loading.
  const taken: Socket[] = [];
  const busy = createServer((socket) => void taken.push(socket));
  await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
  const { port } = busy.address() as { port: number };
  const told: string[] = [];
  let hasSaid: () => void = () => {};
  const said = new Promise<void>((resolve) => {
    hasSaid = resolve;
  });
  const report = (text: string) => {
    told.push(text);
    hasSaid();
  };
  const working = joinController({
    host: "127.0.0.1",
    port,
    token,
    facts,
    now: () => facts.timeMs,
    answerMs: 50,
    timeoutMs: 60_000,
    report,
  });
  await said;
  for (const socket of taken) socket.destroy();
  await new Promise((resolve) => busy.close(resolve));
  const next = await listen({ port });
  await next.machines.all();
  await next.machines.close();
  await working;
  expect(told[0]).toMatch(/^The other side did not answer for 0\.05 seconds .* Asking again for up to 60 seconds\.$/);
});

test("a machine that gives no sign of life is lost, and one that ends is lost at once", async () => {
  const { machines } = await listen({ heartbeat: { everyMs: 20, maxSilentBeats: 3 } });
  const frames = new Frames(await open(machines.port));
  await introduce(frames, facts, token);
  await machines.all();
  await expect(machines.lost).rejects.toMatchObject({
    code: "MACHINE_LOST",
    message: "The worker on n1 (process 7) gave no sign of life for 0.06 seconds.",
  });
  const other = await listen();
  const gone = new Frames(await open(other.machines.port));
  await introduce(gone, facts, token);
  gone.cut("was killed");
  await expect(other.machines.lost).rejects.toThrow("The worker on n1 (process 7) closed the connection.");
});

test("a worker whose controller ends without a word says so", async () => {
  const { machines } = await listen();
  const working = joinAs(machines);
  await machines.all();
  await machines.abandon();
  await expect(working).rejects.toMatchObject({ code: "CONTROLLER_LOST" });
});

test("a folder that is not shared is found out before anything is loaded", async () => {
  const host = new ThreadingHost();
  const folder = mkdtempSync(join(tmpdir(), "reroll-shared-"));
  const file = join(folder, "mark");
  writeFileSync(file, "ours");
  const enter = (path: string, text: string) => host.enter(process.cwd(), { folder: path, file, text }, []);
  await expect(enter(folder, "ours")).resolves.toBeUndefined();
  await expect(enter(folder, "theirs")).rejects.toMatchObject({
    code: "FOLDER_NOT_SHARED",
    message: expect.stringContaining(`${folder} is another folder on the machine`),
  });
  await expect(enter(join(folder, "runs"), "ours")).rejects.toThrow("does not exist on the machine");
  rmSync(folder, { recursive: true });
});

test("with a certificate the connection is encrypted, and a worker that does not trust it stays away", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-tls-"));
  const { keyFile, certFile } = makeCertificate(folder);
  const [key, cert] = [keyFile, certFile].map((file) => readFileSync(file, "utf8")) as [string, string];
  rmSync(folder, { recursive: true });
  const { machines } = await listen({ tls: { key, cert } });
  await expect(joinAs(machines)).rejects.toMatchObject({ code: "JOIN_REFUSED" });
  const working = joinAs(machines, {}, { ca: cert });
  await machines.all();
  await machines.close();
  await working;
});

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port }, () => resolve(socket));
    socket.once("error", reject);
  });
}

/** Up to four thousand random requests, many of them bad or broken off, leave nothing behind. */
import { Agent, type ClientRequest, request as httpRequest } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { startServer } from "./start-server.ts";

const NUM_REQUESTS = 4_000;
/** A busy machine sends fewer. */
const MAX_MS = 25_000;
/** By then everything is loaded and warm. */
const NUM_WARM = 1_000;
const NUM_CLIENTS = 48;

test("4,000 random requests with faults leak no slots, calls, sessions, connections or memory", async () => {
  const running = await startServer({
    ...{ contextLength: 400, maxRunning: 8, maxQueuedRequests: 16 },
    failure: (index) => (index % 37 === 0 ? new RerollError("NON_FINITE", "The model gave NaN.") : undefined),
    server: { maxBodyBytes: 8_000, sessions: { maxOpen: 64, maxFinished: 64, maxTurns: 20 } },
  });
  const chance = createChance(7);
  const agent = new Agent({ keepAlive: true, maxSockets: NUM_CLIENTS });
  const statuses = new Map<string, number>();
  let numSent = 0;
  let warmBytes = 0;
  const deadlineMs = performance.now() + MAX_MS;
  const client = async () => {
    while (numSent < NUM_REQUESTS && performance.now() < deadlineMs) {
      numSent++;
      if (numSent === NUM_WARM) warmBytes = heapBytes();
      if (numSent % 100 === 0) running.server.sessions.takeFinished();
      if (chance() < 0.002) disturb(running.engine, chance);
      const outcome = await send(running.url, agent, randomRequest(chance));
      statuses.set(outcome, (statuses.get(outcome) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: NUM_CLIENTS }, client));
  running.engine.resume();
  await expect.poll(() => running.engine.status()).toMatchObject({ queuedRequests: 0, runningRequests: 0 });

  const metrics = await (await fetch(`${running.url}/metrics`)).text();
  expect(metrics).toContain("reroll_in_flight_requests 0\n");
  expect(running.server.sessions.numOpen).toBeLessThanOrEqual(64);
  expect(running.server.sessions.numFinished).toBeLessThanOrEqual(64);
  expect(new Set(running.ownFaults.map((cause) => cause instanceof RerollError && cause.code))).toEqual(
    new Set(["GENERATION_FAILED"]),
  );
  expect((heapBytes() - warmBytes) / 2 ** 20).toBeLessThan(8);
  for (const outcome of ["200", "400", "404", "409", "413", "429", "500", "hung up"])
    expect(statuses.get(outcome) ?? 0, outcome).toBeGreaterThan(0);
  expect(numSent).toBeGreaterThan(1.5 * NUM_WARM);
  agent.destroy();
  await running.close();
  await expect.poll(() => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap")).toEqual([]);
}, 120_000);

interface RandomRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Record<string, string>;
  /** After how many bytes of the answer the client hangs up. Infinity: it reads it all. */
  readonly hangUpAfter: number;
}

function randomRequest(chance: () => number): RandomRequest {
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(chance() * items.length)]!;
  const session = chance() < 0.5 ? `s${Math.floor(chance() * 200)}` : undefined;
  const headers = { "content-type": "application/json", ...(session && { "x-reroll-session": session }) };
  const hangUpAfter = chance() < 0.12 ? Math.floor(chance() * 400) : Infinity;
  const rest = { method: "POST", headers, hangUpAfter };
  const sampling = {
    max_tokens: 1 + Math.floor(chance() * 24),
    stream: chance() < 0.4,
    temperature: pick([undefined, 0, 1, 0.7, 0.2, 1.3, undefined, -1]),
    top_p: pick([undefined, undefined, undefined, 0.9, 0.8, 0]),
    n: pick([undefined, 1, 2, 3]),
    stop: pick([undefined, "a", ["e", "zz"]]),
    return_token_ids: chance() < 0.2,
  };
  const messages = pick([
    [{ role: "user", content: "Hi" }],
    [
      { role: "system", content: "Be kind" },
      { role: "user", content: "x".repeat(Math.floor(chance() * 450)) },
    ],
    [
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Ho" },
      { role: "user", content: "?" },
    ],
    [],
  ]);
  const tools = pick([undefined, [{ type: "function", function: { name: "f" } }]]);
  return pick<() => RandomRequest>([
    () => ({ ...rest, path: "/v1/chat/completions", body: JSON.stringify({ ...sampling, messages, tools }) }),
    () => ({
      ...rest,
      path: "/v1/chat/completions",
      body: JSON.stringify({ ...sampling, messages, logprobs: true, top_logprobs: 2 }),
    }),
    () => ({ ...rest, path: "/v1/completions", body: JSON.stringify({ ...sampling, prompt: [1, 2, 3] }) }),
    () => ({ ...rest, path: "/v1/completions", body: JSON.stringify({ ...sampling, prompt: ["a", "b"] }) }),
    () => ({ ...rest, path: "/v1/completions", body: '{"prompt": "a"' }),
    () => ({ ...rest, path: "/v1/completions", body: JSON.stringify({ prompt: "y".repeat(9_000) }) }),
    () => ({ ...rest, path: `/v1/sessions/${session}/reward`, body: JSON.stringify({ reward: chance() }) }),
    () => ({ ...rest, method: "DELETE", headers: {}, path: `/v1/sessions/${session}`, body: "" }),
    () => ({ ...rest, method: "GET", headers: {}, path: pick(["/health", "/metrics", "/nowhere"]), body: "" }),
  ])();
}

/** The status of the answer, or how it went wrong. */
function send(url: string, agent: Agent, { method, path, body, headers, hangUpAfter }: RandomRequest): Promise<string> {
  return new Promise((resolve) => {
    const request: ClientRequest = httpRequest(url + path, { method, headers, agent }, (response) => {
      let numBytes = 0;
      response.on("data", (chunk: Buffer) => {
        numBytes += chunk.length;
        if (numBytes > hangUpAfter) request.destroy();
      });
      response.on("end", () => resolve(String(response.statusCode)));
      response.on("error", () => resolve("hung up"));
      response.on("close", () => resolve("hung up"));
    });
    request.on("error", () => resolve("hung up"));
    request.end(body);
    if (hangUpAfter < 60) setImmediate(() => request.destroy());
  });
}

function disturb(
  engine: { pause(): Promise<void>; resume(): void; abortAll(): Promise<void> },
  chance: () => number,
): void {
  if (chance() < 0.5) void engine.abortAll();
  else void engine.pause().then(() => setTimeout(() => engine.resume(), 5));
}

/** mulberry32 */
function createChance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Of what is alive. */
function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  return process.memoryUsage().heapUsed;
}

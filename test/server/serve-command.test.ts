/** `reroll serve` as a person runs it: a process of its own, a model folder, a real client, a signal at the end. */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Metrics } from "../../src/flow/metrics.ts";
import { type RunConfig, type RunInput, runConfig } from "../../src/run/run-config.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { callReroll } from "../cli/call-reroll.ts";

const FROM_SOURCE = ["--import", "tsx", "src/cli/main.ts"];
const FROM_DIST = ["dist/cli/main.js"];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-serve-"));
  for (const file of ["config.json", "model.safetensors"]) cpSync(`fixtures/hf-tiny/qwen3/${file}`, join(folder, file));
  for (const file of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"]) {
    cpSync(`fixtures/tokenizer/${file}`, join(folder, file));
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

interface Command {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly errors: () => string;
  /** The exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string | null>;
}

function start(entry: readonly string[], words: readonly string[]): Command {
  const child = spawn(process.execPath, [...entry, ...words], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (errors += chunk));
  const ended = new Promise<number | string | null>((resolve) => {
    child.on("close", (code, signal) => resolve(code ?? signal));
  });
  return { child, output: () => output, errors: () => errors, ended };
}

async function listening(command: Command): Promise<string> {
  const line = /is served at (http:\S+)\/v1/;
  const isReady = expect.poll(command.output, { timeout: 120_000, interval: 20 }).toMatch(line);
  const outcome = await Promise.race([isReady.then(() => "ready"), command.ended]);
  expect(outcome, command.errors()).toBe("ready");
  return line.exec(command.output())![1]!;
}

/** A run file against a server in another process. */
function remoteRun(url: string, steps: number, more: Partial<RunInput> = {}) {
  return runConfig.parse({
    model: { path: folder },
    device: "cpu",
    engine: { remote: { kind: "reroll", url, apiKey: "secret" } },
    data: { type: "rows", rows: [{ prompt: "a", answer: "b" }] },
    rewards: { default: { type: "contains" } },
    rollout: { groupsPerStep: 2, groupSize: 2, contextLength: 64, sampling: { maxTokens: 8 } },
    training: { optimizer: { lr: 1e-2 } },
    loop: { steps, type: "sync" },
    ...more,
  });
}

/** Trains, and expects of every step that its tokens were drawn with the weights it trains. */
async function expectTrained(runFolder: string, config: RunConfig, isResumed = false): Promise<readonly Metrics[]> {
  const metrics: Metrics[] = [];
  const { position } = await trainRun(config, {
    ...{ folder: runFolder, clock: () => performance.now(), signal: new AbortController().signal, isResumed },
    tracker: { ...silentTracker, log: (_step, _kind, logged) => metrics.push(logged) },
  });
  const { steps } = config.loop;
  expect(position).toEqual({ step: steps, version: steps });
  // Tokens of the second step are of version 1: the server has loaded the weights that the first one made.
  expect(metrics.map((logged) => logged["train/staleness_max"])).toEqual(metrics.map(() => 0));
  for (const logged of metrics) {
    expect(logged["train/sampler_gap_max"]).toBeLessThan(1e-4);
    expect(logged["rollout/failed_share"]).toBe(0);
  }
  return metrics;
}

function serveWords(root: string, port: number): readonly string[] {
  const words = ["--api-key", "secret", "--weights-root", root, "--context", "64"];
  return ["serve", folder, "--port", String(port), ...words];
}

test("one server, whose model is split over two processes, trains with runs of others: a run, the same one resumed, and another after it", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-remote-runs-"));
  const server = start(FROM_DIST, [...serveWords(root, 0), "--tensor", "2"]);
  const url = await listening(server);
  const every = { checkpoint: { every: 1 } };
  const health = async () => (await (await fetch(`${url}/health`)).json()) as { run: string };
  expect(await health()).toMatchObject({ version: 0, run: "" });
  await expectTrained(join(root, "one"), remoteRun(url, 2, every));
  const first = await health();
  expect(first).toMatchObject({ status: "ok", version: 2 });
  expect(await expectTrained(join(root, "one"), remoteRun(url, 3, every), true)).toHaveLength(1);
  // Its versions begin at 0 again, below what the server has.
  await expectTrained(join(root, "two"), remoteRun(url, 1));
  const last = await health();
  expect(last).toMatchObject({ status: "ok", version: 1 });
  expect(last.run).not.toBe(first.run);
  server.child.kill("SIGINT");
  expect(await server.ended).toBe(0);
  rmSync(root, { recursive: true });
});

test("a model that cannot be split as asked is refused before it is loaded", async () => {
  const refused = await callReroll("serve", folder, "--port", "0", "--device", "cpu", "--tensor", "3");
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--tensor must divide the parts of the model: got 3, and it has 4 heads. Use 2."),
  });
  const dense = await callReroll("serve", folder, "--port", "0", "--device", "cpu", "--expert", "2");
  expect(dense.stderr).toContain(
    "--expert is 2, and experts cannot be dealt out to as many ranks: the model has none.",
  );
});

test("a server that is killed and started again gets the weights of the run before any of its tokens are trained on", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-remote-restart-"));
  const port = await freePort();
  const first = start(FROM_DIST, serveWords(root, port));
  const url = await listening(first);
  let second: Command | undefined;
  let numScored = 0;
  // Replies come one at a time, four per step: it goes down within the second step, and comes back with the weights it started with.
  const score = () => {
    if (++numScored === 6) {
      first.child.kill("SIGKILL");
      second = start(FROM_DIST, serveWords(root, port));
    }
    return { value: numScored % 2 };
  };
  await expectTrained(
    join(root, "run"),
    remoteRun(url, 3, {
      rewards: { default: { type: "custom", name: "every-other", score } },
      rollout: { groupsPerStep: 2, groupSize: 2, maxInFlight: 1, contextLength: 64, sampling: { maxTokens: 8 } },
    }),
  );
  expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: "ok", version: 3 });
  second!.child.kill("SIGINT");
  expect(await second!.ended).toBe(0);
  rmSync(root, { recursive: true });
});

test("a run whose server is given to another run ends at once and says so, and the other one is not disturbed", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-remote-taken-"));
  const server = start(FROM_DIST, serveWords(root, 0));
  const url = await listening(server);
  let second: Promise<readonly Metrics[]> | undefined;
  let numFailed = 0;
  const score = () => {
    second ??= expectTrained(join(root, "second"), remoteRun(url, 2));
    return { value: 1 };
  };
  const first = trainRun(remoteRun(url, 100_000, { rewards: { default: { type: "custom", name: "one", score } } }), {
    ...{ folder: join(root, "first"), clock: () => performance.now(), isResumed: false },
    signal: new AbortController().signal,
    tracker: {
      ...silentTracker,
      sampleEvent: ({ stage }) => {
        if (stage === "failed") numFailed++;
      },
    },
  });
  await expect(first).rejects.toMatchObject({ code: "REMOTE_TAKEN", message: expect.stringContaining("another run") });
  // Those that were in flight: two groups of two, and the two that each may replace.
  expect(numFailed).toBeLessThanOrEqual(8);
  await second;
  server.child.kill("SIGINT");
  expect(await server.ended).toBe(0);
  rmSync(root, { recursive: true });
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

test("weights are taken only by a server with a key", async () => {
  const server = start(FROM_DIST, ["serve", folder, "--weights-root", folder]);
  expect(await server.ended).not.toBe(0);
  expect(server.errors()).toMatch(/--weights-root needs --api-key/);
});

test("serve answers a real client until SIGINT, and leaves nothing behind", () => serveAndStop(FROM_DIST));

test("from the sources it does the same, its engine thread too", () => serveAndStop(FROM_SOURCE));

async function serveAndStop(entry: readonly string[]): Promise<void> {
  const words = ["serve", folder, "--port", "0", "--name", "tiny", "--api-key", "sesame", "--device", "cpu"];
  const command = start(entry, words);
  const url = await listening(command);
  expect(command.output()).toContain(`tiny is served at ${url}/v1 (with an API key)`);

  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "sesame", maxRetries: 0 });
  const question = { model: "tiny", messages: [{ role: "user" as const, content: "Hello" }], max_tokens: 12, seed: 1 };
  const whole = await client.chat.completions.create(question);
  expect(whole.usage?.completion_tokens).toBe(12);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  expect(streamed).toBe(whole.choices[0]?.message.content);
  await expect(
    new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 }).models.list(),
  ).rejects.toMatchObject({
    status: 401,
  });

  expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: "ok", version: 0 });
  const metrics = await fetch(`${url}/metrics`, { headers: { authorization: "Bearer sesame" } });
  expect(await metrics.text()).toContain('route="/v1/chat/completions",status="200"} 2');

  const endless = client.completions
    .create({ model: "tiny", prompt: "a", max_tokens: 400, n: 8 })
    .catch((cause: unknown) => cause);
  command.child.kill("SIGINT");
  expect(await command.ended).toBe(0);
  await endless;
  expect(command.errors()).toBe("");
  await expect(fetch(`${url}/health`)).rejects.toThrow();
  expect(existsSync(`/proc/${command.child.pid}`)).toBe(false);
}

test("the compiled command runs by its own name, and shows its flags", async () => {
  const child = spawn("dist/cli/main.js", ["serve", "--help"], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  expect(await new Promise((resolve) => child.on("close", resolve))).toBe(0);
  for (const flag of ["--port <n>", "--host <address>", "--api-key <key>", "--device <device>", "--debug"]) {
    expect(output).toContain(flag);
  }
});

/** [what, words after `serve`, the whole of what it says] */
const REFUSED: readonly [string, (folder: string, port: number) => readonly string[], RegExp, code?: number][] = [
  ["an unknown flag", () => ["x", "--prot", "1"], /^error: unknown option '--prot'\n\(Did you mean --port\?\)\n.*\n$/],
  ["a port that is no number", () => ["x", "--port", "1e3"], /^error: option '--port <n>'.*from 0 to 65535\.\n.*\n$/],
  [
    "an unknown type",
    () => ["x", "--dtype", "int4"],
    /^error: option '--dtype <type>'.*float32, bfloat16, float16\.\n/,
  ],
  ["no model", () => [], /^error: missing required argument 'model'\n.*\n$/],
  ["a model that is not there", () => ["/no/such"], /^error: \/no\/such does not exist\. Check the path\.\n$/],
  ["a folder without a model", (at) => [join(at, "empty")], /^error: .*config\.json.*\n$/],
  [
    "an open host without a key",
    (at) => [at, "--host", "0.0.0.0"],
    /^error: --host 0\.0\.0\.0 lets anyone.*--api-key.*\n$/,
  ],
  ["a key that no client can send", (at) => [at, "--api-key", "two words"], /^error: .*API key.*\n$/],
  ["a key file that is not there", (at) => [at, "--api-key-file", "/no/key"], /^error: --api-key-file \/no\/key.*\n$/],
  [
    "a port in use",
    (at, port) => [at, "--port", String(port)],
    /^error: The server cannot start: port \d+ on 127\.0\.0\.1 is in use\..*\n$/,
    1,
  ],
  ["a device that is not there", (at) => [at, "--device", "cuda:99", "--port", "0"], /^error: .*(CUDA|cuda).*\n$/, 1],
];

test.each(REFUSED)("%s is one clear error and a code that is not 0", async (_what, words, message, code = 2) => {
  cpSync("fixtures/tokenizer/tokenizer.json", join(folder, "empty/tokenizer.json"));
  cpSync("fixtures/tokenizer/tokenizer_config.json", join(folder, "empty/tokenizer_config.json"));
  const taken = createServer();
  const port = await new Promise<number>((resolve) => {
    taken.listen(0, "127.0.0.1", () => resolve((taken.address() as { port: number }).port));
  });
  try {
    const ended = await callReroll("serve", ...words(folder, port));
    expect(ended).toEqual({ code, stdout: "", stderr: expect.stringMatching(message) });
  } finally {
    taken.close();
  }
});

test("the key can come from a file, and --debug shows where an error is from", async () => {
  const key = join(folder, "key");
  writeFileSync(key, "from-file\n");
  const command = start(FROM_DIST, [
    "serve",
    "/no/such",
    "--api-key-file",
    key,
    "--host",
    "0.0.0.0",
    "--port",
    "0",
    "--debug",
  ]);
  expect(await command.ended).toBe(2);
  expect(command.errors()).toMatch(/^RerollError: \/no\/such does not exist\. Check the path\.\n {4}at /);
});

test("a context that the model does not have is refused", async () => {
  const { code, stderr } = await callReroll("serve", folder, "--port", "0", "--context", "257");
  expect(stderr).toContain("got 257, and its config says 256 positions. Give 256 or less.");
  expect(code).toBe(2);
});

/** The sinks for MLflow and Weights & Biases against servers that speak as much of their protocols as the sinks use. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { MetricSink, OpenSink } from "../../src/tracking/metric-sink.ts";
import { mlflowSink } from "../../src/tracking/mlflow-sink.ts";
import type { MetricRecord, RunInfo } from "../../src/tracking/run-record.ts";
import { wandbSink } from "../../src/tracking/wandb-sink.ts";

const delivery = { intervalMs: 2, retryMs: 2, closeMs: 3000 };
const info: RunInfo = {
  id: "0b8e-77",
  name: "countdown",
  status: "running",
  error: null,
  pid: 1,
  host: "h",
  startedAt: "2026-01-01T00:00:00.000Z",
  endedAt: null,
  numSteps: 10,
  recipe: "grpo",
  model: "tiny",
  tags: ["a", "b"],
  seed: 7,
  version: "0.1.0",
  sets: [],
  modelDigest: null,
  decoding: null,
};
const startedMs = Date.parse(info.startedAt);
const record = (step: number, metrics: Record<string, number>): MetricRecord => ({
  step,
  timeMs: startedMs + 1000 * step,
  kind: "train",
  metrics,
});

interface Call {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: Record<string, unknown>;
}
type Answer = (call: Call) => { readonly status?: number; readonly body?: unknown };

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

async function listen(answer: Answer): Promise<{ readonly baseUrl: string; readonly calls: Call[] }> {
  const calls: Call[] = [];
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const call = {
      path: request.url!,
      authorization: request.headers.authorization,
      body: chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString()),
    };
    calls.push(call);
    const { status = 200, body = {} } = answer(call);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
}

function open(openSink: OpenSink): { readonly sink: MetricSink; readonly warnings: string[] } {
  const warnings: string[] = [];
  const config = { algorithm: { type: "grpo", clipHigh: 0.28 } };
  const context = { info, folder: "runs/countdown", config, startStep: 0, warn: (text: string) => warnings.push(text) };
  return { sink: openSink(context), warnings };
}

test("MLflow gets an experiment, a run with its config, the metrics, and the end", async () => {
  const { baseUrl, calls } = await listen(({ path }) => {
    if (path.includes("experiments/get-by-name")) return { status: 404 };
    if (path.endsWith("experiments/create")) return { body: { experiment_id: "3" } };
    if (path.endsWith("runs/create")) return { body: { run: { info: { run_id: "r1" } } } };
    return {};
  });
  const { sink, warnings } = open(mlflowSink({ baseUrl, experiment: "ann's tasks", key: "secret", delivery }));
  sink.log(record(1, { "reward/mean": 0.5, "train/loss": Number.NaN, "reward/größe": 1 }));
  await sink.close("finished");
  expect(warnings).toEqual([]);
  expect(calls.map(({ path }) => path.replace("/api/2.0/mlflow/", ""))).toEqual([
    "experiments/get-by-name?experiment_name=ann%27s%20tasks",
    "experiments/create",
    "runs/search",
    "runs/create",
    "runs/log-batch",
    "runs/log-batch",
    "runs/update",
  ]);
  expect(new Set(calls.map(({ authorization }) => authorization))).toEqual(new Set(["Bearer secret"]));
  expect(calls[3]?.body).toMatchObject({ experiment_id: "3", run_name: "countdown", start_time: startedMs });
  expect(calls[4]?.body).toMatchObject({
    params: expect.arrayContaining([{ key: "algorithm.clipHigh", value: "0.28" }]),
  });
  expect(calls[5]?.body).toEqual({
    run_id: "r1",
    metrics: [
      { key: "reward/mean", value: 0.5, timestamp: startedMs + 1000, step: 1 },
      { key: "reward/gr__e", value: 1, timestamp: startedMs + 1000, step: 1 },
    ],
  });
  expect(calls[6]?.body).toMatchObject({ run_id: "r1", status: "FINISHED" });
});

test("MLflow finds the run again when it is resumed", async () => {
  const { baseUrl, calls } = await listen(({ path }) => {
    if (path.includes("experiments/get-by-name")) return { body: { experiment: { experiment_id: "3" } } };
    if (path.endsWith("runs/search")) return { body: { runs: [{ info: { run_id: "old" } }] } };
    return {};
  });
  const { sink } = open(mlflowSink({ baseUrl, experiment: "tasks", delivery }));
  sink.log(record(5, { a: 1 }));
  await sink.close("interrupted");
  expect(calls[1]?.body).toMatchObject({ filter: "tags.`reroll.run_id` = '0b8e-77'" });
  expect(calls[2]?.body).toMatchObject({ run_id: "old" });
  expect(calls[3]?.body).toMatchObject({ run_id: "old", status: "KILLED" });
});

const bucket = { name: "0b8e77", historyLineCount: 4, project: { name: "proj", entity: { name: "team" } } };
const opened = { body: { data: { upsertBucket: { bucket } } } };

test("wandb opens the run and appends numbered lines after those it has", async () => {
  const { baseUrl, calls } = await listen(({ path }) => (path === "/graphql" ? opened : {}));
  const { sink, warnings } = open(wandbSink({ baseUrl, key: "secret", project: "proj", delivery }));
  sink.log(record(5, { "reward/mean": 0.5 }));
  sink.log(record(6, { "reward/mean": 0.6, "train/loss": Number.NaN }));
  await sink.close("finished");
  expect(warnings).toEqual([]);
  expect(calls.map(({ path }) => path)).toEqual([
    "/graphql",
    "/files/team/proj/0b8e77/file_stream",
    "/files/team/proj/0b8e77/file_stream",
  ]);
  expect(calls[0]?.authorization).toBe(`Basic ${Buffer.from("api:secret").toString("base64")}`);
  expect(calls[0]?.body).toMatchObject({
    variables: {
      name: "0b8e77",
      project: "proj",
      displayName: "countdown",
      config: '{"algorithm":{"value":{"type":"grpo","clipHigh":0.28}}}',
      tags: ["a", "b"],
    },
  });
  expect(calls[1]?.body).toEqual({
    files: {
      "wandb-history.jsonl": {
        offset: 4,
        content: [
          `{"reward/mean":0.5,"_step":5,"_timestamp":${startedMs / 1000 + 5},"_runtime":5}`,
          `{"reward/mean":0.6,"train/loss":NaN,"_step":6,"_timestamp":${startedMs / 1000 + 6},"_runtime":6}`,
        ],
      },
      "wandb-summary.json": { offset: 0, content: ['{"reward/mean":0.6,"train/loss":NaN}'] },
    },
  });
  expect(calls[2]?.body).toEqual({ complete: true, exitcode: 0 });
});

test("wandb gets a batch that failed again at the same line", async () => {
  let numStreams = 0;
  const { baseUrl, calls } = await listen(({ path, body }) => {
    if (path === "/graphql") return opened;
    return "files" in body && ++numStreams === 1 ? { status: 503 } : {};
  });
  const { sink, warnings } = open(wandbSink({ baseUrl, key: "k", project: "proj", delivery }));
  sink.log(record(1, { a: 1 }));
  await sink.close("failed");
  const offsets = calls.flatMap(({ body }) => {
    const files = body.files as Record<string, { offset: number }> | undefined;
    return files?.["wandb-history.jsonl"]?.offset ?? [];
  });
  expect(offsets).toEqual([4, 4]);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/^Weights & Biases cannot be reached and is tried again later: 503 from 127/);
  expect(calls.at(-1)?.body).toEqual({ complete: true, exitcode: 1 });
});

test.each([
  ["mlflow", (baseUrl: string) => mlflowSink({ baseUrl, experiment: "x", delivery })],
  ["wandb", (baseUrl: string) => wandbSink({ baseUrl, key: "k", project: "x", delivery })],
] as const)("%s with a wrong key is one warning and then silence", async (_, make) => {
  const { baseUrl, calls } = await listen(() => ({ status: 401, body: { message: "bad key" } }));
  const { sink, warnings } = open(make(baseUrl));
  sink.log(record(1, { a: 1 }));
  await sink.close("finished");
  sink.log(record(2, { a: 1 }));
  expect(calls).toHaveLength(1);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/refuses the metrics, and gets no more of them: 401 from 127.*bad key/s);
});

test("a GraphQL error of wandb is a refusal", async () => {
  const { baseUrl } = await listen(() => ({ body: { errors: [{ message: "no such entity" }], data: null } }));
  const { sink, warnings } = open(wandbSink({ baseUrl, key: "k", project: "x", delivery }));
  sink.log(record(1, { a: 1 }));
  await sink.close("finished");
  expect(warnings).toEqual(["Weights & Biases refuses the metrics, and gets no more of them: no such entity"]);
});

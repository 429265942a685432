/** Whole runs with several engines: nothing that a run computes depends on how many there are, or on whether one of them dies. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SampleEvent } from "../../src/flow/sample-event.ts";
import type { RunAgent } from "../../src/rollout/agent-call.ts";
import { serveModel } from "./served-model.ts";
import { digestOf, type SmallRun, trainSmall } from "./small-run.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-engines-"));
  for (const file of ["config.json", "model.safetensors"]) cpSync(`fixtures/hf-tiny/qwen3/${file}`, join(folder, file));
  for (const file of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"])
    cpSync(`fixtures/tokenizer/${file}`, join(folder, file));
});
afterAll(() => rmSync(folder, { recursive: true }));

const lake = { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null };
const run = {
  envs: { lake },
  rollout: { groupsPerStep: 4, groupSize: 4, maxInFlight: 64, contextLength: 64, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 1e-3 }, threads: 1 },
  engine: { threads: 1 },
};

const inProcess = { engine: { workers: "processes" } };

test("runs end with the same weights, to the bit, on one, two and three engines, in either loop", async () => {
  const sync = { type: "sync", steps: 2 };
  const spread = [
    // One of them with engines that sleep while the trainer works.
    { loop: sync, engine: { count: 2, sleep: true } },
    { loop: { type: "async", steps: 2, maxStaleness: 0 }, engine: { count: 3 } },
  ];
  const one = await trainSmall({ ...run, loop: sync });
  for (const { loop, engine } of spread) {
    const many = await trainSmall({ ...run, loop, placement: { engine } });
    expect(digestOf(many.weights)).toBe(digestOf(one.weights));
    expect(rewards(many)).toEqual(rewards(one));
    // In turns, engines read the trainer's weights where they are; beside each other, every engine has a copy.
    const numCopies = loop.type === "sync" ? 0 : engine.count;
    expect(many.metrics.at(-1)!["sync/bytes"]).toBe(numCopies * 4 * one.weights.length);
  }
  expect(one.metrics.at(-1)!["sync/bytes"]).toBe(0);
});

test("an engine in a process gets a LoRA run's adapters alone, and draws the tokens of one that has them added in here", async () => {
  const lora = { ...run, model: { preset: "nano", lora: { rank: 2, alpha: 5 } }, loop: { type: "sync", steps: 2 } };
  const [here, there] = [await trainSmall(lora), await trainSmall({ ...lora, placement: inProcess })];
  expect(digestOf(there.weights)).toBe(digestOf(here.weights));
  expect(rewards(there)).toEqual(rewards(here));
  const [whole, sent] = [here, there].map(({ metrics }) => metrics.at(-1)!["sync/bytes"]!);
  // Two matrices in float32, and a scale in float64 for each of the seven modules of two layers.
  expect(sent).toBe(4 * here.weights.length + 8 * 7 * 2);
  expect(sent).toBeLessThan(whole! / 5);
});

/** Told of every call that the agent makes, before it is made. */
let onCall = () => {};
const agent: RunAgent = async (prompt, { baseURL, apiKey, model, seed, signal }) => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const content = String(prompt.messages[0]!.content);
  onCall();
  const request = { model, messages: [{ role: "user" as const, content }], seed };
  const reply = await client.chat.completions.create(request, { signal });
  return { reward: (reply.choices[0]!.message.content ?? "").length % 2 };
};

const toRow = (what: string) => ({ prompt: `Name ${what}.`, answer: "" });

/** Two steps of eight replies each. `strike` is called with the first of the second step. */
async function trainAgent(changes: Record<string, unknown>, strike = () => {}) {
  let numCalls = 0;
  onCall = () => void (++numCalls === 9 && strike());
  const rows = ["a color", "an animal"].map(toRow);
  const trained = await trainSmall({
    ...{ agent, model: { path: folder }, data: { type: "rows", rows }, loop: { type: "sync", steps: 2 } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 160, sampling: { maxTokens: 40 } },
    training: { optimizer: { lr: 1e-3 }, threads: 1 },
    engine: { threads: 1 },
    ...changes,
  });
  expect(numCalls).toBe(16);
  expect(trained.metrics.map((metrics) => metrics["rollout/failed_share"])).toEqual([0, 0]);
  return trained;
}

/** The run that the others must equal. */
let alone: Promise<SmallRun> | undefined;
const trainAlone = () => (alone ??= trainAgent({}));

test("an agent's run ends with the same weights when a server that samples for it dies among its replies", async () => {
  const { weights } = await trainAlone();
  const servers = await Promise.all([1, 2].map(() => serveModel(folder, tmpdir(), 160)));
  try {
    const remote = { kind: "reroll", url: servers.map(({ url }) => url), apiKey: "secret" };
    const served = await trainAgent({ engine: { remote } }, () => servers[0]!.cutDuringReply());
    expect(servers.map(({ isCut }) => isCut())).toEqual([true, false]);
    expect(digestOf(served.weights)).toBe(digestOf(weights));
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
});

test("servers that are all gone when weights are published are waited for, also when they go once more", async () => {
  const servers = await Promise.all([1, 2].map(() => serveModel(folder, tmpdir(), 64)));
  const small = { ...run, model: { path: folder }, loop: { type: "sync", steps: 2 } };
  const remote = { kind: "reroll", url: servers.map(({ url }) => url), apiKey: "secret" };
  let numComplete = 0;
  const strike = ({ stage }: SampleEvent) => {
    // The last sample of the first step: the next that is asked of the servers is the publication. Both its attempts break, and once they are back, both of the next.
    if (stage === "complete" && ++numComplete === 16) for (const server of servers) server.breakWeights([1, 2, 4, 5]);
  };
  try {
    const here = await trainSmall(small);
    const there = await trainSmall({ ...small, engine: { remote } }, 0, strike);
    expect(numComplete).toBe(32);
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
});

test("an agent's run ends with the same weights when a process that samples for it is killed among its replies", async () => {
  const { weights } = await trainAlone();
  let killed: readonly number[] = [];
  const placement = { engine: { count: 2, workers: "processes" } };
  const apart = await trainAgent({ placement }, () => {
    killed = engineProcesses().slice(0, 1);
    for (const pid of killed) process.kill(pid, "SIGKILL");
  });
  expect(killed).toHaveLength(1);
  expect(digestOf(apart.weights)).toBe(digestOf(weights));
  // Nothing is left behind, the engine that was started in the place of the lost one included.
  expect(engineProcesses()).toEqual([]);
});

test("the only engine, killed between two publications, goes on with the weights that the trainer has by then", async () => {
  // One call at a time: with the twelfth the first step is under way or done, and the second one, which publishes, lacks replies.
  let numCalls = 0;
  onCall = () => {
    if (++numCalls === 12) for (const pid of engineProcesses()) process.kill(pid, "SIGKILL");
  };
  const { metrics, trajectories } = await trainSmall({
    ...{ agent, model: { path: folder }, data: { type: "rows", rows: ["a color", "an animal"].map(toRow) } },
    loop: { type: "async", steps: 4, syncInterval: 2, maxStaleness: 2 },
    rollout: {
      ...{ groupsPerStep: 2, groupSize: 4, maxInFlight: 1, contextLength: 160, sampling: { maxTokens: 40 } },
      limits: { generateSeconds: 20 },
    },
    placement: inProcess,
    training: { optimizer: { lr: 1e-3 }, threads: 1 },
    engine: { threads: 1 },
  });
  expect(metrics.map((one) => one["rollout/failed_share"])).toEqual([0, 0, 0, 0]);
  const versions = trajectories.flatMap(({ turns }) => turns.flatMap(({ versions }) => versions));
  expect([...new Set(versions)].sort()).toEqual([0, 1, 2]);
});

function engineProcesses(): readonly number[] {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ");
  const isEngine = (pid: string) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("engine-process");
  return children.filter((pid) => pid !== "" && isEngine(pid)).map(Number);
}

function rewards({ trajectories }: SmallRun) {
  return trajectories.map(({ reward }) => reward.total);
}

/** Whole runs with several engines: nothing that a run computes depends on how many there are, or on whether one of them dies. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunAgent } from "../../src/rollout/agent-call.ts";
import { serveModel } from "./served-model.ts";
import { trainSmall } from "./small-run.ts";

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

test("runs end with the same weights, to the bit, on one, two and three engines, in either loop", async () => {
  const sync = { type: "sync", steps: 2 };
  const spread = [
    { loop: sync, count: 2 },
    { loop: { type: "async", steps: 2, maxStaleness: 0 }, count: 3 },
  ];
  const one = await trainSmall({ ...run, loop: sync });
  for (const { loop, count } of spread) {
    const many = await trainSmall({ ...run, loop, placement: { engine: { count } } });
    expect(many.weights).toEqual(one.weights);
    expect(rewards(many)).toEqual(rewards(one));
    expect(many.metrics.at(-1)!["sync/bytes"]).toBe(count * one.metrics.at(-1)!["sync/bytes"]!);
  }
});

test("an agent's run ends with the same weights when one of its two servers dies in the middle of its replies", async () => {
  let onCall = () => {};
  const agent: RunAgent = async (prompt, { baseURL, apiKey, model, seed, signal }) => {
    const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
    const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [
      { role: "user", content: String(prompt.messages[0]!.content) },
    ];
    onCall();
    const reply = await client.chat.completions.create({ model, messages, seed }, { signal });
    return { reward: (reply.choices[0]!.message.content ?? "").length % 2 };
  };
  const rows = ["a color", "an animal"].map((what) => ({ prompt: `Name ${what}.`, answer: "" }));
  const shared = {
    ...{ agent, model: { path: folder }, data: { type: "rows", rows }, loop: { type: "sync", steps: 2 } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 160, sampling: { maxTokens: 40 } },
    training: { optimizer: { lr: 1e-3 }, threads: 1 },
  };
  const alone = await trainSmall({ ...shared, engine: { threads: 1 } });
  const servers = await Promise.all([1, 2].map(() => serveModel(folder, tmpdir(), 160)));
  try {
    let numCalls = 0;
    // With the first call of the second step, which both servers take a part of.
    onCall = () => void (++numCalls === 9 && servers[0]!.cutDuringReply());
    const remote = { kind: "reroll", url: servers.map(({ url }) => url), apiKey: "secret" };
    const cut = await trainSmall({ ...shared, engine: { remote } });
    expect(numCalls).toBe(16);
    expect(servers.map(({ isCut }) => isCut())).toEqual([true, false]);
    expect(cut.weights).toEqual(alone.weights);
    expect(cut.metrics.map((metrics) => metrics["rollout/failed_share"])).toEqual([0, 0]);
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
});

function rewards({ trajectories }: Awaited<ReturnType<typeof trainSmall>>) {
  return trajectories.map(({ reward }) => reward.total);
}

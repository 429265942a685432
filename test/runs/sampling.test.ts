/** What a run samples with is what it trains on: truncated sampling, agents with settings of their own, prompts that do not fit. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Metrics } from "../../src/flow/metrics.ts";
import { Random } from "../../src/random/random.ts";
import type { RunAgent } from "../../src/rollout/agent-call.ts";
import { type RunInput, runConfig } from "../../src/run/run-config.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { isCudaAvailable } from "../../src/torch/cuda.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";

interface Trained {
  readonly steps: readonly Metrics[];
  readonly notes: readonly string[];
}

/** Trains from a run file with these keys, and gives what it logged and said. */
async function train(changes: Partial<RunInput>): Promise<Trained> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-sampling-"));
  const steps: Metrics[] = [];
  const notes: string[] = [];
  const { rollout, ...others } = changes;
  const run: RunInput = {
    device: "cpu",
    model: { preset: "nano" },
    data: { type: "rows", rows: rowsOf(20) },
    rewards: { default: { type: "contains" } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 96, sampling: { maxTokens: 40 }, ...rollout },
    algorithm: {
      type: "grpo",
      correction: { importance: { level: "sequence", threshold: 2 }, rejections: { sequence: "0.5_2" } },
    },
    training: { optimizer: { lr: 1e-5 } },
    engine: { threads: 1 },
    loop: { type: "sync", steps: 1 },
    ...others,
  };
  try {
    await trainRun(runConfig.parse(run), {
      ...{ folder, clock: () => performance.now(), signal: new AbortController().signal, isResumed: false },
      tracker: {
        ...silentTracker,
        log: (_step, kind, metrics) => kind === "train" && steps.push(metrics),
        note: (text) => void notes.push(text),
      },
    });
    return { steps, notes };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function rowsOf(count: number, textOf = (i: number) => `say ${i}`): { id: string; prompt: string; answer: string }[] {
  return Array.from({ length: count }, (_, i) => ({ id: `row-${i}`, prompt: textOf(i), answer: "x" }));
}

function expectOnPolicy({ steps }: Trained): void {
  expect(steps.length).toBeGreaterThan(0);
  for (const metrics of steps) {
    expect(metrics["train/sampler_gap_max"]).toBeLessThan(1e-3);
    expect(metrics["score/kept_fraction"]).toBe(1);
  }
}

const random = new Random(7);
const randomSamplings = Array.from({ length: 3 }, () => ({
  temperature: 0.6 + random.uniform(),
  topP: 0.5 + random.uniform() / 2,
  topK: 3 + random.integer(20),
  minP: 0.05 * random.uniform(),
}));

test.each([{ topP: 0.95 }, ...randomSamplings])("an on-policy run rejects nothing with %o", async (sampling) => {
  const trained = await train({ rollout: { sampling: { maxTokens: 40, ...sampling } } });
  expectOnPolicy(trained);
  expect(trained.steps[0]!["rollout/truncation_gap"]).toBeGreaterThan(0.01);
});

async function ask(call: Parameters<RunAgent>[1], messages: readonly object[], more: object) {
  const response = await fetch(`${call.baseURL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages, return_token_ids: true, ...more }),
  });
  const body = (await response.json()) as { choices?: { message: { content: string }; token_ids: number[] }[] };
  return { status: response.status, choice: body.choices?.[0] };
}

test("what an agent asks for changes what is drawn and not what is compared, and the temperature stays the run's", async () => {
  const asked = { max_tokens: 6, temperature: 0.1, top_p: 0.8, repetition_penalty: 1.5, logit_bias: { "65": 5 } };
  const agent: RunAgent = async (prompt, call) => {
    await ask(call, [{ role: "user", content: `sub ${prompt.id}` }], asked);
    return call.seed % 2;
  };
  const trained = await train({ agent, rewards: {}, rollout: { sampling: { maxTokens: 40, temperature: 1.2 } } });
  expectOnPolicy(trained);
  expect(Math.abs(trained.steps[0]!["rollout/truncation_gap"]!)).toBeGreaterThan(0.1);
  expect(
    trained.notes.filter((note) => note.includes("asked for temperature 0.1. It is sampled with 1.2")),
  ).toHaveLength(1);
});

test("rollout.sampling.maxTokens and rollout.maxTurns bind agents", async () => {
  const lengths: number[] = [];
  const statuses: number[] = [];
  const agent: RunAgent = async (prompt, call) => {
    for (let turn = 0; turn < 3; turn++) {
      const { status, choice } = await ask(call, [{ role: "user", content: `${turn} ${prompt.id}` }], {
        max_tokens: 30,
      });
      statuses.push(status);
      if (choice !== undefined) lengths.push(choice.token_ids.length);
    }
    return call.seed % 2;
  };
  const { steps, notes } = await train({ agent, rewards: {}, rollout: { maxTurns: 2, sampling: { maxTokens: 5 } } });
  expect(notes.filter((note) => note.includes("asked for max_tokens 30. It gets at most 5"))).toHaveLength(1);
  expect(Math.max(...lengths)).toBe(5);
  expect(statuses.filter((status) => status === 200)).toHaveLength(2 * 8);
  expect(steps[0]).toMatchObject({ "rollout/turns": 2, "rollout/truncated_share": 1, "rollout/failed_share": 0 });
});

test("prompts that do not fit are left out, counted and named, and others take their place", async () => {
  const rows = rowsOf(20, (i) => (i % 2 === 0 ? "x".repeat(400) : `say ${i}`));
  const { steps, notes } = await train({
    data: { type: "rows", shuffle: false, rows },
    loop: { type: "sync", steps: 2 },
  });
  for (const metrics of steps) {
    expect(metrics["rollout/dropped_prompts"]).toBe(2);
    expect(metrics).toMatchObject({ "rollout/groups": 2, "rollout/trajectories": 8, "rollout/failed_share": 0 });
    expect(metrics["experience/rows"]).toBe(8);
    expect(metrics["rollout/reply_tokens"]).toBeGreaterThan(0);
  }
  const named = notes.filter((note) => note.endsWith("It is left out."));
  expect(named[0]).toMatch(/^Prompt "\S+" leaves no room for a reply in the context of 96 tokens. It is left out.$/);
  expect(named).toHaveLength(3);
});

test("data in which no prompt fits is an error that says so", async () => {
  const rows = rowsOf(5, () => "x".repeat(400));
  await expect(train({ data: { type: "rows", rows } })).rejects.toMatchObject({
    code: "PROMPT_TOO_LONG",
    message: expect.stringMatching(
      /^None of 5 prompts fits the context; .* Raise rollout.contextLength, or use shorter/,
    ),
  });
});

test("a conversation that outgrows the context ends as truncated, and what was sampled is trained on", async () => {
  const { steps } = await train({
    data: undefined,
    rewards: {},
    envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 50, answerTags: null } },
    rollout: { contextLength: 64, maxTurns: 50, sampling: { maxTokens: 2 } },
  });
  expect(steps[0]!["rollout/dropped_prompts"]).toBe(0);
  expect(steps[0]!["rollout/truncated_share"]).toBeGreaterThan(0);
  expect(steps[0]!["experience/rows"]).toBe(8);
});

test("sequences under way when weights change go on with old keys and values, unless the run recomputes them", async () => {
  const trainWith = async (reprefill: boolean) => {
    const { steps } = await train({
      algorithm: { type: "decoupled-ppo" },
      rollout: { groupsPerStep: 1, groupSize: 4, maxInFlight: 16, reprefill, sampling: { maxTokens: 80 } },
      training: { optimizer: { lr: 1e-4 } },
      loop: { type: "async", steps: 8, maxStaleness: 3 },
    });
    return steps;
  };
  const steps = await trainWith(false);
  const onOld = steps.filter((metrics) => metrics["rollout/old_cache_share"]! > 0);
  expect(onOld.length).toBeGreaterThan(0);
  // Such tokens have a gap of their own, measured where there are any and nowhere else.
  for (const metrics of onOld) expect(metrics["train/sampler_gap_old_cache"]).toBeGreaterThan(0);
  expect(steps.filter((metrics) => "train/sampler_gap_old_cache" in metrics)).toEqual(onOld);
  const recomputed = await trainWith(true);
  expect(recomputed.map((metrics) => metrics["rollout/old_cache_share"])).toEqual(new Array(8).fill(0));
  expect(recomputed.some((metrics) => "train/sampler_gap_old_cache" in metrics)).toBe(false);
});

test.skipIf(isCudaAvailable())("a run with exact kernels needs a GPU, and says so before it begins", async () => {
  await expect(train({ exact: true })).rejects.toThrow(
    /^exact is true, and this machine has no CUDA device: .* Leave exact out; in float32/,
  );
});

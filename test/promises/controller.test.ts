/** One controller that leads samples, domains, environments and models through their lives. */
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fixtureFolder } from "../../fixtures/tokenizer/make-tokenizer.ts";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import type { EnvFactory, TextEnv } from "../../src/envs/text-env.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { saveValueHead, ValueHead } from "../../src/models/causal-lm/value-head.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { Generator } from "../../src/torch/random.ts";
import type { SpanRecord } from "../../src/tracking/run-record.ts";
import { inFolder, type LakeChanges, trainLake } from "../runs/lake-run.ts";
import { trainSmall } from "../runs/small-run.ts";
import { lakeFile } from "./lake-file.ts";

describe("single controller: one process runs rollout, training and publishing of one run file", () => {
  /** Whether any two stretches of these stages share a moment. */
  const overlap = (spans: readonly SpanRecord[], one: string, other: string) =>
    spans.some(
      (a) =>
        a.stage === one &&
        spans.some((b) => b.stage === other && Math.max(a.startMs, b.startMs) < Math.min(a.endMs, b.endMs)),
    );
  const timelineOf = (changes: LakeChanges) =>
    inFolder(async (root) => {
      const { folder } = await trainLake(root, changes);
      const info = JSON.parse(readFileSync(join(folder, "run.json"), "utf8"));
      expect(info).toMatchObject({ pid: process.pid, status: "finished" });
      const lines = readFileSync(join(folder, "spans.jsonl"), "utf8").trim().split("\n");
      return lines.map((line) => JSON.parse(line) as SpanRecord);
    });

  test("one after the other in a synchronous run", async () => {
    const spans = await timelineOf({ loop: { type: "sync", steps: 3 } });
    const startOf = (step: number, stage: string) =>
      spans.find((span) => span.step === step && span.stage === stage)!.startMs;
    for (const step of [2, 3]) {
      const starts = ["rollout", "generating", "train", "sync"].map((stage) => startOf(step, stage));
      expect(starts).toEqual(starts.toSorted((a, b) => a - b));
    }
    for (const other of ["train", "sync"]) expect(overlap(spans, "generating", other), other).toBe(false);
  });

  test("at the same time in an asynchronous run", async () => {
    const spans = await timelineOf({
      envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 8, answerTags: null } },
      rollout: { contextLength: 128, maxInFlight: 8 },
      loop: { type: "async", steps: 4, maxStaleness: 2 },
    });
    expect(overlap(spans, "generating", "train")).toBe(true);
  });
});

/** One question per prompt. The reply is not looked at: what becomes of a sample is up to `live`. */
function questions(live: (sample: number, prompt: number, signal: AbortSignal) => Promise<void> | void): EnvFactory {
  const numMade = new Map<string, number>();
  return {
    words: { words: ["go", "left", "right"], endWords: [] },
    makePrompt: (seed) => ({ id: `p${seed}`, domain: "questions", seed, messages: [], truth: null, extra: {} }),
    makeEnv: ({ id }): TextEnv => {
      const sample = numMade.get(id) ?? 0;
      numMade.set(id, sample + 1);
      const prompt = [...numMade.keys()].indexOf(id);
      return {
        start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "go" }] } }),
        step: async (_, signal) => {
          await live(sample, prompt, signal);
          return { kind: "terminated", reward: 0, metrics: { sample, prompt } };
        },
      };
    },
  };
}

test("sample lifecycle: rewards that come later, failed samples replaced, superfluous ones ended, groups without a difference refilled", async () => {
  const env = questions(async (sample, _, signal) => {
    // Of six samples the first breaks, two never end by themselves, and a seventh takes the place of the first.
    if (sample === 0) throw new Error("a broken sample");
    if (sample === 4 || sample === 5) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  });
  const rewarded: number[] = [];
  const { metrics, trajectories } = await trainSmall(
    lakeFile({
      envs: { questions: { type: "custom", ...env } },
      rewards: {
        default: {
          type: "custom",
          name: "later",
          score: async ({ prompt }) => {
            await new Promise((resolve) => setImmediate(resolve));
            const before = rewarded.filter((seed) => seed === prompt.seed).length;
            rewarded.push(prompt.seed!);
            // Every second prompt pays all of its samples alike.
            const isFlat = [...new Set(rewarded)].indexOf(prompt.seed!) % 2 === 0;
            return { value: isFlat ? 1 : before };
          },
        },
      },
      rollout: {
        ...{ groupsPerStep: 2, groupSize: 4, extraSamples: 2, contextLength: 16, maxInFlight: 6 },
        filter: { dropEqualRewards: true },
      },
      loop: { type: "sync", steps: 2 },
    }),
  );
  const delivered = trajectories.filter(({ fate }) => fate === "delivered");
  expect(delivered).toHaveLength(2 * 2 * 4);
  for (const { metrics: found, reward } of delivered) {
    expect([1, 2, 3, 6]).toContain(found.sample);
    expect(reward.parts).toHaveProperty("later");
  }
  for (const id of new Set(delivered.map(({ groupId }) => groupId))) {
    const rewards = delivered.filter(({ groupId }) => groupId === id).map(({ reward }) => reward.total);
    expect(rewards.toSorted()).toEqual([0, 1, 2, 3]);
  }
  const total = (name: string) => metrics.reduce((sum, step) => sum + step[name]!, 0);
  expect(total("rollout/filtered_groups")).toBeGreaterThanOrEqual(2);
  expect(total("rollout/aborted_samples")).toBeGreaterThanOrEqual(2 * 2 * 2);
  expect(trajectories.some(({ fate, reason }) => fate === "failed" && reason!.includes("a broken sample"))).toBe(true);
  for (const step of metrics) expect(step).toMatchObject({ "rollout/groups": 2, "score/reward": 1.5 });
});

test("routing by domain, mixing by share: three domains with their own rewards", async () => {
  const part = (ratio: number, domain: string, answer: string) => {
    const rows = [1, 2, 3, 4].map((id) => ({ prompt: `${domain} ${id}`, answer }));
    return { ratio, source: { type: "rows" as const, name: domain, domain, rows } };
  };
  const { trajectories, metrics } = await trainSmall(
    lakeFile({
      envs: {},
      data: {
        type: "mix",
        parts: [part(2, "math", "4"), part(1, "science", "B"), part(1, "brevity", "-")],
      },
      rewards: {
        math: { type: "math" },
        science: { type: "choice" },
        brevity: { type: "length", curve: { shape: "target", target: 4, tolerance: 8 } },
      },
      rollout: { groupsPerStep: 8, groupSize: 2, contextLength: 64, sampling: { maxTokens: 4 } },
      loop: { type: "sync", steps: 2 },
    }),
  );
  for (const step of [1, 2]) {
    const domains = trajectories.filter((each) => each.step === step).map(({ prompt }) => prompt.domain);
    expect(domains.toSorted()).toEqual([
      ...Array<string>(4).fill("brevity"),
      ...Array<string>(8).fill("math"),
      ...Array<string>(4).fill("science"),
    ]);
  }
  const rewardOf = { math: "math", science: "choice", brevity: "length" } as const;
  for (const { prompt, reward, turns } of trajectories) {
    const own = rewardOf[prompt.domain as keyof typeof rewardOf];
    expect(Object.keys(reward.parts).filter((name) => Object.values(rewardOf).includes(name as never))).toEqual([own]);
    const numTokens = turns[0]!.tokenIds.length;
    if (own === "length") expect(reward.total).toBeCloseTo(1 - (4 - numTokens) / 8, 6);
  }
  expect(Object.keys(metrics[0]!)).toEqual(expect.arrayContaining(["reward/math", "reward/choice", "reward/length"]));
});

test("multi-turn episodes in many environments at once, each one row of tokens that only grow", async () => {
  let numOpen = 0;
  let most = 0;
  const makeEnv = (): TextEnv => {
    let turn = 0;
    const observation = { messages: [{ role: "user" as const, content: "go" }] };
    most = Math.max(most, ++numOpen);
    return {
      start: () => ({ instructions: [], observation }),
      step: ({ text }) => {
        const reward = text.includes("left") ? 1 : 0;
        if (++turn === 5) return { kind: "terminated", reward, metrics: {} };
        return { kind: "continues", reward, metrics: {}, observation };
      },
      end: () => void numOpen--,
    };
  };
  const { words, makePrompt } = questions(() => {});
  const { metrics, trajectories } = await trainSmall(
    lakeFile({
      envs: { questions: { type: "custom", words: words!, makePrompt: makePrompt!, makeEnv } },
      rollout: { groupsPerStep: 32, groupSize: 8, contextLength: 64, maxInFlight: 256 },
      loop: { type: "sync", steps: 1 },
    }),
  );
  expect([most, numOpen]).toEqual([256, 0]);
  expect(metrics[0]).toMatchObject({ "rollout/turns": 5, "experience/rows": 256, "experience/forks": 0 });
  for (const { turns, reward } of trajectories) {
    expect(reward.total).toBe(turns.filter(({ replyText }) => replyText.includes("left")).length);
    let length = 0;
    for (const { promptFrom, promptIds, tokenIds } of turns) {
      expect(promptFrom).toBe(length);
      length += promptIds.length + tokenIds.length;
    }
  }
});

test("RLHF in one run: supervised steps, then PPO with policy, reference, critic and reward model", async () => {
  await inFolder(async (root) => {
    const path = join(root, "reward-model");
    cpSync(fixtureFolder, path, { recursive: true });
    const { files } = await loadTokenizer(fixtureFolder);
    const config = tinyConfig("qwen3", { vocabSize: 260, maxPositions: 256 });
    saveCausalLm(tinyModel(config), path, { files });
    saveValueHead(new ValueHead(config.width, { initial: { std: 0.5, generator: new Generator(7) } }), path);
    const asked = [1, 2, 3, 4].map((id) => ({ prompt: `question ${id}`, answer: "yes" }));
    const { metrics, trajectories } = await trainSmall(
      lakeFile({
        envs: {},
        data: { type: "rows", rows: asked },
        rewards: { default: { type: "reward-model", path } },
        algorithm: { type: "ppo", klReward: { coefficient: 0.1 } },
        critic: { optimizer: { lr: 1e-3 } },
        warmStart: {
          type: "data",
          data: { type: "rows", rows: asked },
          steps: 4,
          rowsPerStep: 4,
          optimizer: { lr: 3e-3 },
        },
        rollout: { groupsPerStep: 4, groupSize: 2, contextLength: 64, sampling: { maxTokens: 4 } },
        loop: { type: "sync", steps: 2 },
      }),
    );
    const supervised = metrics.slice(0, 4).map((step) => step["supervised/loss"]!);
    expect(supervised[3]).toBeLessThan(supervised[0]! - 0.5);
    const [first, second] = metrics.slice(4);
    expect(new Set(trajectories.map(({ reward }) => reward.parts["reward-model"])).size).toBeGreaterThan(4);
    // The critic starts at 0 and learns; KL to the reference is charged to the reward.
    expect(first!["value/mean"]).toBe(0);
    expect(Math.abs(second!["value/mean"]!)).toBeGreaterThan(1e-3);
    for (const step of [first!, second!]) expect(step["score/reward"]).toBeCloseTo(step["reward/reward-model"]!, 4);
    expect(Math.abs(second!["score/shaped_reward"]! - second!["score/reward"]!)).toBeGreaterThan(1e-4);
  });
});

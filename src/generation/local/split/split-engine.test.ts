/** An engine that is split over processes draws what a whole one draws: in float32 on the CPU, with Gloo between them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../../chat/tokenizer/byte-tokenizer.ts";
import type { Family } from "../../../models/causal-lm/families/table.ts";
import { saveCausalLm } from "../../../models/causal-lm/save-causal-lm.ts";
import { tinyConfig, tinyModel } from "../../../testing/tiny-model.ts";
import type { GenerateRequest, Generation } from "../../generate.ts";
import { startThreadedEngine, type ThreadedEngine } from "../threaded-engine.ts";

const folders = mkdtempSync(join(tmpdir(), "reroll-split-engine-"));
afterAll(() => rmSync(folders, { recursive: true }));

/** A model with a vocabulary that two ranks cannot halve. */
function writeModel(family: Family, seed: number): string {
  const folder = join(folders, `${family}-${seed}`);
  const model = tinyModel(tinyConfig(family, { vocabSize: 261, maxPositions: 128 }), { seed });
  saveCausalLm(model, folder, { files: byteTokenizerFiles() });
  model.dispose();
  return folder;
}

/** Few blocks, so that sequences wait for some and lose theirs, and steps shorter than prompts, so that those are cut. */
const options = { contextLength: 96, blockSize: 4, numBlocks: 40, maxStepTokens: 24, isSteady: true };

function start(folder: string, counts?: { readonly tensor: number; readonly expert: number }) {
  const split = counts && { split: { ...counts, devices: ["cpu", "cpu"] } };
  return startThreadedEngine({ folder, tokenizerFolder: folder, numThreads: 1, options, ...split });
}

/** Four prompts with two samples each, which share their beginning; two replies of a session; one in a format; one that ranks words. */
async function draw({ generate }: ThreadedEngine): Promise<readonly Generation[]> {
  const promptOf = (i: number) => Int32Array.from({ length: 9 + 11 * i }, (_, k) => 40 + ((7 * k + i) % 200));
  const ask = (i: number, request: Partial<GenerateRequest> = {}) =>
    generate({ promptIds: promptOf(i), sampling: { maxTokens: 12, temperature: 1, seed: 7 * i }, ...request });
  const samples = Array.from({ length: 8 }, (_, i) =>
    ask(i >> 1, { sampling: { maxTokens: 12, temperature: 1, seed: 100 + i } }),
  );
  const constraint = { kind: "regex", pattern: "(yes|no), [0-9]{3}" } as const;
  const first = await ask(1, { sessionId: "a" });
  const together = [
    ...samples,
    ask(1, { sessionId: "a", promptIds: Int32Array.from([...promptOf(1), ...first.tokenIds, 65, 66]) }),
    ask(2, { sampling: { maxTokens: 16, temperature: 1, seed: 5, constraint, stopIds: [258] } }),
    ask(0, { numTopLogprobs: 3 }),
  ];
  return [first, ...(await Promise.all(together))];
}

function expectAlike(own: readonly Generation[], whole: readonly Generation[]): void {
  for (const [i, { tokenIds, samplerLogprobs, topLogprobs = [], finish, usage }] of whole.entries()) {
    expect(own[i]).toMatchObject({ tokenIds, finish, usage });
    for (const [k, logprob] of samplerLogprobs.entries())
      expect(Math.abs(own[i]!.samplerLogprobs[k]! - logprob)).toBeLessThan(1e-5);
    expect(own[i]!.topLogprobs?.map((top) => top.map(({ tokenId }) => tokenId)) ?? []).toEqual(
      topLogprobs.map((top) => top.map(({ tokenId }) => tokenId)),
    );
  }
}

test.each<[what: string, Family, { tensor: number; expert: number }]>([
  ["heads and MLPs of a dense model are split", "qwen3", { tensor: 2, expert: 1 }],
  ["heads are split and experts dealt out", "qwen3_moe", { tensor: 2, expert: 2 }],
  ["experts are dealt out under linear attention, with a shared one", "qwen3_next", { tensor: 1, expert: 2 }],
])(
  "where %s, tokens are those of a whole engine, also with weights that are loaded later",
  async (_, family, counts) => {
    const [before, after] = [1, 2].map((seed) => writeModel(family, seed)) as [string, string];
    const engines = await Promise.all([start(before), start(before, counts)]);
    const [whole, split] = engines;
    try {
      const drawn = await draw(whole);
      expectAlike(await draw(split), drawn);
      expect(new TextDecoder().decode(Uint8Array.from(drawn.at(-2)!.tokenIds.subarray(0, 5)))).toMatch(
        /^(yes, |no, \d)/,
      );
      // Both parts together have what the whole engine has; norms, and what is not split, are on both.
      const [all, part] = [whole, split].map((engine) => engine.status().memoryBytes!) as [number, number];
      expect(part / all).toBeGreaterThan(0.45);
      expect(part / all).toBeLessThan(counts.tensor === 2 ? 0.56 : 0.96);
      await split.sleep();
      for (const engine of engines) await engine.loadWeights(1, after);
      const later = await draw(whole);
      expectAlike(await draw(split), later);
      expect(`${later[0]!.tokenIds}`).not.toBe(`${drawn[0]!.tokenIds}`);
      const prompt = Int32Array.from({ length: 20 }, (_, i) => 60 + i);
      const [scores, own] = await Promise.all(engines.map((engine) => engine.scorePrompt(prompt)));
      for (const [i, score] of scores!.entries()) if (i > 0) expect(own![i]).toBeCloseTo(score, 5);
    } finally {
      await Promise.all(engines.map((engine) => engine.close()));
    }
    expect(rankProcesses()).toEqual([]);
  },
);

test("an engine whose rank is killed is broken, says so, and leaves no process behind", async () => {
  const engine = await start(writeModel("qwen3", 1), { tensor: 2, expert: 1 });
  const sampling = { maxTokens: 80, temperature: 1, seed: 1 };
  const strike = () => rankProcesses().forEach((pid) => void process.kill(pid, "SIGKILL"));
  const { finish } = await engine.generate({ promptIds: Int32Array.of(70, 71), sampling, onTokens: strike });
  expect(finish).toMatchObject({ kind: "failed", error: { code: "ENGINE_BROKEN" } });
  expect(engine.status().brokenBy).toMatch(/^The engine lost a rank: /);
  await engine.close();
  expect(rankProcesses()).toEqual([]);
});

test("a step with more to plan than fits a message is computed as well; and an engine whose rank is killed while nothing runs is broken", async () => {
  const folder = writeModel("qwen3", 1);
  const many = { contextLength: 96, blockSize: 1, numBlocks: 12_000, maxRunning: 128, maxStepTokens: 16_384 };
  const split = { tensor: 2, expert: 1, devices: ["cpu", "cpu"] };
  const engine = await startThreadedEngine({ folder, numThreads: 1, options: many, split });
  // 100 prompts with a block for each of their 90 tokens: twice 9,000 numbers, and some for each.
  const replies = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      engine.generate({
        promptIds: Int32Array.from({ length: 90 }, (_, k) => 10 + ((k + i) % 200)),
        sampling: { maxTokens: 2, temperature: 1, seed: i },
      }),
    ),
  );
  expect(replies.map(({ tokenIds }) => tokenIds.length)).toEqual(replies.map(() => 2));
  expect(engine.status().counters.steps).toBeLessThanOrEqual(4);
  for (const pid of rankProcesses()) process.kill(pid, "SIGKILL");
  await expect
    .poll(() => engine.status().brokenBy)
    .toMatch(/lost a rank: Rank 1 of the engine, on cpu, was ended by SIGKILL/);
  await engine.close();
});

function rankProcesses(): readonly number[] {
  const tasks = `/proc/${process.pid}/task`;
  const children = readdirSync(tasks).flatMap((task) => readGone(`${tasks}/${task}/children`).split(" "));
  const isRank = (pid: string) => readGone(`/proc/${pid}/cmdline`).includes("rank-worker");
  return children.filter((pid) => pid.trim() !== "" && isRank(pid)).map(Number);
}

/** A thread or process that was just listed may have ended since: there is nothing of it. */
function readGone(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

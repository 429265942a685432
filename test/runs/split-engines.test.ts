/** Whole runs whose engines are split over processes: from a run file, with the numbers of a run whose engine is whole. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { type SmallRun, trainSmall } from "./small-run.ts";

let mixture: string;
beforeAll(() => {
  mixture = mkdtempSync(join(tmpdir(), "reroll-split-engines-"));
  const model = tinyModel(tinyConfig("qwen3_moe", { vocabSize: 272, maxPositions: 64 }));
  saveCausalLm(model, mixture, { files: byteTokenizerFiles() });
  model.dispose();
});
afterAll(() => rmSync(mixture, { recursive: true }));

const training = { optimizer: { lr: 1e-3 }, threads: 1 };
const run = {
  envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null } },
  rollout: { groupsPerStep: 4, groupSize: 4, maxInFlight: 64, contextLength: 64, sampling: { maxTokens: 2 } },
  // Ratios are taken against what the engine says of its tokens, so that a wrong log-prob of its changes the weights.
  algorithm: { type: "grpo", bypass: {} },
  ...{ training, engine: { threads: 1 }, loop: { type: "sync", steps: 2 } },
};

function expectAlike(split: SmallRun, whole: SmallRun): void {
  expect(split.weights).toHaveLength(whole.weights.length);
  const most = split.weights.reduce((most, value, i) => Math.max(most, Math.abs(value - whole.weights[i]!)), 0);
  expect(most).toBeLessThan(1e-5);
  expect(tokens(split)).toEqual(tokens(whole));
}

function tokens({ trajectories }: SmallRun) {
  return trajectories.map(({ turns }) => turns.map(({ tokenIds }) => tokenIds));
}

test("a run whose engine is split ends with the weights of one whose engine is whole, and sends each rank its part of them", async () => {
  const [whole, split] = [
    await trainSmall({ ...run, placement: { engine: { workers: "processes" } } }),
    await trainSmall({ ...run, placement: { engine: { tensor: 2 } } }),
  ];
  expectAlike(split, whole);
  const [sent, inParts] = [whole, split].map(({ metrics }) => metrics.at(-1)!["sync/bytes"]!) as [number, number];
  // Only norms go to both ranks: in each of two layers two of 64 values and two of 16, and the last one.
  expect(inParts - sent).toBe(4 * (2 * (2 * 64 + 2 * 16) + 64));
});

test("a mixture of experts goes from stages and shards of a trainer to engines with heads split and experts dealt out; a rank that is killed costs nothing", async () => {
  const model = { path: mixture };
  const whole = await trainSmall({ ...run, model });
  let killed = 0;
  const strike = () => {
    if (killed === 0) killed = killRank();
  };
  const placement = { engine: { count: 2, tensor: 2, expert: 2 } };
  const strategy = { pipeline: 2 };
  const split = await trainSmall(
    { ...run, model, placement, training: { ...training, ranks: 2, strategy } },
    0,
    strike,
  );
  expect(killed).toBeGreaterThan(0);
  expectAlike(split, whole);
  expect(childrenOf(process.pid)).toEqual([]);
});

test("ranks of a split engine get the adapters of a LoRA run, and add their parts to the weights of their files", async () => {
  const model = { path: mixture, lora: { rank: 2, alpha: 5 } };
  const [whole, split] = [
    await trainSmall({ ...run, model }),
    await trainSmall({
      ...{ ...run, model, placement: { engine: { tensor: 2 } } },
      training: { ...training, ranks: 2, strategy: { zero: 3 } },
    }),
  ];
  expectAlike(split, whole);
  expect(split.metrics.at(-1)!["sync/bytes"]).toBeLessThan(whole.metrics.at(-1)!["sync/bytes"]!);
});

test.each<[string, Record<string, unknown>, RegExp]>([
  [
    "heads that cannot be dealt out evenly",
    { placement: { engine: { tensor: 3 } } },
    /^placement\.engine\.tensor must divide the parts of the model: got 3, and it has 4 heads\. Use 2\.$/,
  ],
  [
    "experts of a model that has none",
    { placement: { engine: { expert: 2 } } },
    /^placement\.engine\.expert is 2, and experts cannot be dealt out to as many ranks: the model has none\. Set it to 1\.$/,
  ],
  [
    "two counts that differ",
    { placement: { engine: { tensor: 2, expert: 4 } } },
    /^placement\.engine has tensor 2 and expert 4: both are over the same devices\. Set both to 4, or one of them to 1\.$/,
  ],
  [
    "ranks in threads",
    { placement: { engine: { tensor: 2, workers: "threads" } } },
    /^placement\.engine\.tensor is 2, and placement\.engine\.workers is "threads"/,
  ],
  [
    "a number of devices that engines do not divide",
    { placement: { engine: { tensor: 2, devices: "0-2" } } },
    /^placement\.engine\.devices has 3 devices for engines of 2 each: got "0-2"\. List a multiple of 2\.$/,
  ],
])("%s are refused before anything starts", async (_, changes, message) => {
  const file = { device: "cpu", model: { preset: "nano" }, ...run, ...changes };
  await expect(prepareRun(file as never, [], {})).rejects.toThrow(message);
});

/** Kills a rank of an engine that is not its first, and returns its number; 0 while there is none. */
function killRank(): number {
  const [rank] = childrenOf(process.pid)
    .flatMap(childrenOf)
    .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("engine-rank-process"));
  if (rank !== undefined) process.kill(rank, "SIGKILL");
  return rank ?? 0;
}

function childrenOf(pid: number): readonly number[] {
  const tasks = `/proc/${pid}/task`;
  const lists = readdirSync(tasks).map((task) => readFileSync(`${tasks}/${task}/children`, "utf8").trim());
  return lists.flatMap((list) => (list === "" ? [] : list.split(" ").map(Number)));
}

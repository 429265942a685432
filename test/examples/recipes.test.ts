/** Every run file of examples/recipes runs for two steps, made small: a tiny model, few samples, a few rows of data. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkSandbox } from "reroll";
import { afterAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { loadRunFile } from "../../src/run/load-run-file.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { prepareTuning } from "../../src/tuning/prepare-tuning.ts";
import { trainTuning } from "../../src/tuning/train-tuning.ts";
import { writeRewardModel } from "../rewards/write-reward-model.ts";
import { startServer } from "../server/start-server.ts";

const recipes = fileURLToPath(new URL("../../examples/recipes/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "reroll-recipes-"));
/** Says the same word of every reply. */
const judge = await startServer({ reply: () => "nothing", server: { acceptsAnyModel: true } });
afterAll(async () => {
  await judge.close();
  rmSync(folder, { recursive: true });
});

const small = [
  "device=cpu",
  "rollout.groupsPerStep=4",
  "rollout.groupSize=2",
  "rollout.sampling.maxTokens=4",
  "rollout.filter.dropEqualRewards=false",
  "training.minibatch=0",
  "checkpoint.every=0",
];
/** A model from nothing in place of one from disk. */
const preset = ["model.path=null", "model.preset=nano"];

/** A chat model's game: a warm start and a validation of a few turns. */
const shortPlay = [...preset, "warmStart.steps=1", "warmStart.turnsPerStep=4", "validation.prompts=2"];
/** WebShop's products, which are not part of this repository. */
const products = fileURLToPath(new URL("../../../shared/data/webshop", import.meta.url));

const rows = {
  gsm8k: [{ question: "What is 2 + 3?", answer: "2 + 3 = 5\n#### 5" }],
  hh: [{ chosen: "\n\nHuman: Hi\n\nAssistant: Hello.", rejected: "\n\nHuman: Hi\n\nAssistant: No." }],
  mbpp: [{ task_id: 1, text: "Write a function one() that gives 1.", test_list: ["assert one() == 1"] }],
  ifeval: [
    {
      key: 1,
      prompt: "Answer without any commas.",
      instruction_id_list: ["punctuation:no_comma"],
      kwargs: [{}],
    },
  ],
};
const files = Object.fromEntries(
  Object.entries(rows).map(([name, lines]) => {
    const path = join(folder, `${name}.jsonl`);
    writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    return [name, path];
  }),
);

/** What each recipe needs beyond being small. */
const changes: Readonly<Record<string, readonly string[]>> = {
  "arithmetic.ts": ["warmStart.steps=2", "validation.prompts=4"],
  "async-replay.ts": ["warmStart.steps=2", "validation.prompts=4"],
  "cart-pole-text.ts": ["warmStart.steps=2", "validation.prompts=4"],
  "context-distillation.ts": [...preset, `data.path=${files.gsm8k}`],
  "calculator-agent.ts": [
    ...[...preset, "rollout.contextLength=1024", "validation.prompts=2"],
    ...["warmStart.steps=1", "warmStart.rowsPerStep=3"],
  ],
  "chat-frozen-lake.ts": shortPlay,
  "chat-frozen-lake-slippery.ts": shortPlay,
  "chat-sokoban.ts": shortPlay,
  "chat-sokoban-letters.ts": shortPlay,
  "chat-sokoban-two-boxes.ts": [
    ...shortPlay,
    "rollout.contextLength=1024",
    "envs.rooms.maxTurns=8",
    "envs.unseen.maxTurns=8",
  ],
  "countdown.ts": [...preset, "validation.prompts=4"],
  "distillation.ts": [
    ...preset,
    `data.path=${files.gsm8k}`,
    // No teacher speaks the bytes of the preset but the preset itself.
    'distillation.teachers.default={"type":"self","context":"Be wise."}',
  ],
  "frozen-lake.ts": ["warmStart.steps=2", "validation.prompts=4"],
  "gsm8k.ts": [...preset, `data.path=${files.gsm8k}`, `validation.data.path=${files.gsm8k}`, "validation.prompts=1"],
  "mixed-domains.ts": [
    ...preset,
    `data.parts.0.source.path=${files.gsm8k}`,
    `data.parts.1.source.path=${files.mbpp}`,
    `data.parts.2.source.path=${files.ifeval}`,
  ],
  "own-agent.ts": [],
  "ppo-reward-model.ts": [
    ...[...preset, `data.path=${files.gsm8k}`, "rollout.groupSize=1", "critic.path=null"],
    `rewards.chat.path=${writeRewardModel(join(folder, "reward-model"), 272, byteTokenizerFiles())}`,
  ],
  "reflection.ts": [...preset, `data.path=${files.gsm8k}`],
  "self-play.ts": ["warmStart.steps=2"],
  "rollout-correction.ts": ["warmStart.steps=2", "validation.prompts=4"],
  "three-domains.ts": [
    ...[...preset, "validation.prompts=4"],
    `rewards.general.parts.1.reward.baseUrl=${judge.url}/v1`,
  ],
  // Pages are long in bytes.
  "webshop.ts": [
    ...[...shortPlay, "rollout.contextLength=4096"],
    ...["brief", "detailed", "unseen"].flatMap((env) => [
      `envs.${env}.maxTurns=2`,
      `envs.${env}.dataFolder=${products}`,
    ]),
  ],
  "word-problems.ts": [...preset, "validation.prompts=4"],
  "sokoban.ts": ["warmStart.steps=2", "validation.prompts=4"],
};

const hasSandbox = (await checkSandbox()).isAvailable;

const names = readdirSync(recipes).filter((name) => name.endsWith(".ts"));
// Those of control have keys of their own: see control-recipes.test.ts. So do those of tuning: see below.
const kinds = await Promise.all(names.map(async (name) => (await loadRunFile(join(recipes, name))).kind));

test.each(names.filter((_, i) => kinds[i] === undefined))(
  "%s runs for two steps",
  async (name) => {
    if (name === "mixed-domains.ts" && !hasSandbox) return;
    if (name === "webshop.ts" && !existsSync(products)) return;
    const { config } = await prepareRun(join(recipes, name), ["loop.steps=2", ...small, ...(changes[name] ?? [])]);
    const logged: number[] = [];
    const result = await trainRun(config, {
      folder: join(folder, name),
      clock: () => performance.now(),
      signal: new AbortController().signal,
      isResumed: false,
      tracker: { ...silentTracker, log: (step, kind) => kind === "train" && logged.push(step) },
    });
    expect(result.position.step).toBe(config.loop.steps);
    expect(logged).toEqual(config.loop.steps === 0 ? [] : [1, 2]);
  },
  120_000,
);

const tuning: Readonly<Record<string, readonly string[]>> = {
  "dpo.ts": [
    "data.type=jsonl",
    `data.path=${files.hh}`,
    "validation.data.type=jsonl",
    `validation.data.path=${files.hh}`,
  ],
  "reward-model.ts": [`data.path=${files.hh}`, `validation.data.path=${files.hh}`],
  "word-problems-supervised.ts": ["data", "validation.data"].map(
    (key) => `${key}.rows=[{"prompt":"What is 2 + 3?","completion":"5"}]`,
  ),
  "sft.ts": [`data.path=${files.gsm8k}`, `validation.data.path=${files.gsm8k}`],
};

test.each(names.filter((_, i) => kinds[i] === "tuning"))(
  "%s tunes for two steps",
  async (name) => {
    const shrink = ["device=cpu", "contextLength=256", "loop.steps=2", "loop.rowsPerStep=2", ...preset];
    const run = await prepareTuning(await loadRunFile(join(recipes, name)), [...shrink, ...(tuning[name] ?? [])], {});
    const tracker = {
      ...silentTracker,
      log: (step: number, kind: string) => void (kind === "train" && logged.push(step)),
    };
    const logged: number[] = [];
    const open = { folder: join(folder, name), tracker, signal: new AbortController().signal, isResumed: false };
    const { position } = await trainTuning(run, open, () => performance.now());
    expect(position.step).toBe(2);
    expect(logged).toEqual([1, 2]);
  },
  120_000,
);

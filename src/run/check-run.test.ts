import { describe, expect, test } from "vitest";
import { exampleConfig } from "../../test/cli/example-run.ts";
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import { tinyConfig } from "../testing/tiny-model.ts";
import { checkRun, checkSplit } from "./check-run.ts";

const check = (...sets: readonly string[]) => {
  const config = exampleConfig(...sets);
  checkRun(config, buildRecipe(config.algorithm as RecipeChoice));
};

const correction = 'algorithm.correction={"importance":{"level":"token","threshold":2}}';
const decoupled = "algorithm.type=decoupled-ppo";
const bypass = "algorithm.bypass={}";
/** A loop whose tokens may be this many training steps old. */
const stale = (steps: number) => `loop={"type":"async","maxStaleness":${steps}}`;
const rare = (interval: number, steps = 1) =>
  `loop={"type":"async","syncInterval":${interval},"maxStaleness":${steps}}`;
const replay = (facts: object) => `replay=${JSON.stringify(facts)}`;

describe("tokens of any age are trained on by what corrects for the weights that drew them", () => {
  test.each([
    ["decoupled PPO", [decoupled]],
    ["token weights", [correction]],
    ["rejection", ['algorithm.correction={"rejections":{"token_k1":"0.5_2"}}']],
    ["outliers left out", ['algorithm.outliers={"of":"ratio","low":0.5,"high":2}']],
    ["a ratio that is a weight", ["algorithm.type=truncated-is", bypass]],
    ["rejection in bypass mode", [bypass, 'algorithm.correction={"rejections":{"token_k1":"0.5_2"}}']],
    ["weights of reinforce in bypass mode", ['algorithm.bypass={"loss":"reinforce"}', correction]],
    ["leaving out what is old", ['algorithm.staleness={"max":2}']],
  ])("%s", (_, algorithm) => {
    expect(() => check(...algorithm, stale(50))).not.toThrow();
    expect(() => check(...algorithm, rare(100, 99))).not.toThrow();
    expect(() => check(...algorithm, replay({ ratio: 0.9 }))).not.toThrow();
  });
});

/** What is refused, what must be said, and the ways out that it names: each makes the run pass. */
const refused: readonly (readonly [name: string, sets: string[], says: RegExp, ways: string[][]])[] = [
  [
    "staleness",
    [stale(8)],
    /^loop.maxStaleness is 8: tokens may be that many training steps old, and nothing corrects for the weights that drew them. Set algorithm.correction to { importance: { level: "token", threshold: 2 } }, or loop.maxStaleness to 4 or less.$/,
    [[stale(8), correction], [stale(4)]],
  ],
  [
    "bypass",
    [bypass, stale(50)],
    /the clip range around .* Set algorithm.correction to {.*} and algorithm.bypass to null, or loop.maxStaleness to 4 or less/,
    [
      [stale(50), correction, "algorithm.bypass=null"],
      [bypass, stale(4)],
    ],
  ],
  [
    "bypass with weights that its loss does not apply",
    [bypass, correction, stale(50)],
    /algorithm.bypass to null/,
    [[stale(50), correction, "algorithm.bypass=null"]],
  ],
  [
    "a ratio against the anchor",
    ["algorithm.type=truncated-is", stale(8)],
    /nothing corrects for the weights that drew them/,
    [["algorithm.type=truncated-is", stale(8), correction]],
  ],
  [
    "replay",
    [replay({ ratio: 0.9 })],
    /^replay.maxAge is 16: .* or replay.maxAge to 4 or less/,
    [[replay({ ratio: 0.9 }), correction], [replay({ ratio: 0.9, maxAge: 4 })]],
  ],
  [
    "both",
    [stale(8), replay({ ratio: 0.9 })],
    /^loop.maxStaleness is 8 and replay.maxAge is 16: .* or loop.maxStaleness and replay.maxAge to 4 or less/,
    [
      [stale(8), replay({ ratio: 0.9 }), correction],
      [stale(4), replay({ ratio: 0.9, maxAge: 4 })],
    ],
  ],
  [
    "an interval beyond maxStaleness",
    [rare(100)],
    /^loop.syncInterval is 100, so that tokens are up to 99 training steps old, and loop.maxStaleness is 1. Set loop.syncInterval to 2 or less, or loop.maxStaleness to 99 or more and algorithm.correction to {/,
    [[rare(2)], [rare(100, 99), correction]],
  ],
  [
    "the same where it is corrected",
    [rare(100), decoupled],
    /or loop.maxStaleness to 99 or more\.$/,
    [
      [rare(2), decoupled],
      [rare(100, 99), decoupled],
    ],
  ],
  [
    "an interval within maxStaleness",
    [rare(100, 99)],
    /^loop.maxStaleness is 99: .* or loop.maxStaleness and loop.syncInterval to 4 or less/,
    [[rare(100, 99), correction], [rare(4, 4)]],
  ],
  [
    "held trajectories",
    ["rollout.partial=true", 'loop={"type":"sync","maxStaleness":9}'],
    /^loop.maxStaleness is 9: /,
    [
      ["rollout.partial=true", 'loop={"type":"sync","maxStaleness":9}', correction],
      ["rollout.partial=true", 'loop={"type":"sync","maxStaleness":4}'],
      ["rollout.partial=true"],
    ],
  ],
  [
    "a bound that nothing reads",
    ['loop={"type":"sync","maxStaleness":2}'],
    /^loop.maxStaleness is 2, and a synchronous loop trains on fresh tokens alone/,
    [[], ["rollout.partial=true", 'loop={"type":"sync","maxStaleness":2}'], [stale(2)]],
  ],
  [
    "a TD error without a critic",
    [replay({ priority: { "td-error": 1 }, maxAge: 4 })],
    /^replay.priority counts the td-error, and grpo has no critic/,
    [
      [replay({ priority: { "td-error": 1 }, maxAge: 4 }), "algorithm.type=ppo"],
      [replay({ priority: "advantage", maxAge: 4 })],
    ],
  ],
];

describe("without a correction", () => {
  test.each(refused)("%s is refused, and each way out that is named leads out", (_, sets, says, ways) => {
    expect(() => check(...sets)).toThrow(says);
    for (const way of ways) expect(() => check(...way), way.join(" ")).not.toThrow();
  });
});

const split = (value: object, ranks: number) => [
  `training.ranks=${ranks}`,
  `training.strategy=${JSON.stringify(value)}`,
];

test("a strategy that its ranks cannot keep is refused, with what would do", () => {
  expect(() => check(...split({ tensor: 2, context: 2 }, 6))).toThrow(
    /^training.ranks must be a multiple of training.strategy.tensor \* context: got 6 and 2 \* 2\./,
  );
  expect(() => check(...split({ zero: 2, offload: "parameters" }, 2))).toThrow(
    /^training.strategy.offload is "parameters", and zero is 2: .* Set zero to 3, or offload to "optimizer"\./,
  );
  expect(() => check(...split({ pipeline: 2, tensor: 2 }, 2))).toThrow(
    /^training.ranks must be a multiple of training.strategy.tensor \* pipeline: got 2 and 2 \* 2\. Set ranks to 4 or a multiple of it\.$/,
  );
  expect(() => check(...split({ pipeline: 2, zero: 2 }, 4))).toThrow(
    /^training.strategy has pipeline 2 and zero 2: .* Set zero to 0 or 1, or pipeline to 1\.$/,
  );
  expect(() => check(...split({ pipeline: 2, zero: 1, offload: "optimizer" }, 4))).not.toThrow();
  expect(() => check(...split({ expert: 2, tensor: 2 }, 4))).toThrow(
    /^training.strategy has expert 2 and tensor 2: .* Set one of them to 1\.$/,
  );
  expect(() => check(...split({ context: 2, expert: 2 }, 6))).toThrow(
    /^training.ranks must be a multiple of training.strategy.context \* expert: got 6 and 2 \* 2\./,
  );
  expect(() => check(...split({ zero: 1, tensor: 2, context: 2 }, 8))).not.toThrow();
});

test.each([
  [['device="cpu"'], /^exact is true, and device is "cpu".* Set device to "cuda", or leave exact out\.$/],
  [["model.dtype=float32"], /^exact is true, and model.dtype is "float32"/],
  [['model.lora={"rank":4}'], /^exact is true, and model.lora is set/],
  [split({ tensor: 2 }, 2), /^exact is true, and training.strategy splits layers or rows/],
])("exact kernels are refused where engine and trainer cannot share their order: %s", (sets, says) => {
  expect(() => check("exact=true", ...split({ zero: 3 }, 2))).not.toThrow();
  expect(() => check(...sets, "exact=false")).not.toThrow();
  expect(() => check(...sets, "exact=true")).toThrow(says);
});

test("experts that a model does not have are not dealt out", () => {
  const run = exampleConfig(...split({ expert: 4 }, 4));
  const mixture = tinyConfig("qwen3_moe");
  expect(() => checkSplit(run, [tinyConfig("qwen3")])).toThrow(
    "training.strategy.expert is 4, and experts cannot be dealt out to as many ranks: the model has none. Set it to 1.",
  );
  expect(() => checkSplit(exampleConfig(...split({ expert: 8 }, 8)), [mixture])).toThrow(
    "there are 5. Set it to 5 or less.",
  );
  expect(() => checkSplit(run, [mixture, null])).not.toThrow();
});

test.each([
  ["remote", 'envs.lake={"type":"remote","url":"http://10.0.0.5:8700"}'],
  ["openenv", 'envs.lake={"type":"openenv","url":"http://10.0.0.5:8700"}'],
])("a warm start by play is refused where the environment is elsewhere: %s", (type, env) => {
  expect(() => check(env)).not.toThrow();
  expect(() => check('warmStart={"type":"play"}')).not.toThrow();
  expect(() => check(env, 'warmStart={"type":"play"}')).toThrow(
    `warmStart.type is "play", and envs.lake is of type "${type}", which nobody but a model can play. Set warmStart to null`,
  );
});

test("every stage has a layer", () => {
  const run = exampleConfig(...split({ pipeline: 4 }, 4));
  expect(() => checkSplit(run, [tinyConfig("qwen3")])).toThrow(
    "training.strategy.pipeline must be at most the number of layers: got 4, and the model has 2.",
  );
  expect(() => checkSplit(run, [tinyConfig("qwen3", { numLayers: 4 }), null])).not.toThrow();
});

test("devices of ranks are as many as ranks or fewer, and device is left out beside them", () => {
  expect(() => check("training.ranks=2", 'placement.trainer.devices="0-3"')).toThrow(
    /^placement.trainer.devices has 4 devices for 2 ranks: got "0-3"\. Set training.ranks to the number of devices, or list fewer\.$/,
  );
  expect(() => check("device=cpu", 'placement.trainer.devices="0"')).toThrow(
    /^placement.trainer.devices is "0", and device is "cpu"\. Leave device out\.$/,
  );
  expect(() => check("training.ranks=4", 'placement.trainer.devices="0-1"')).not.toThrow();
});

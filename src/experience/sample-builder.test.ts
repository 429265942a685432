import { describe, expect, test } from "vitest";
import { groupOf, type TrajectoryFacts } from "../../test/experience/groups.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { type BuildOptions, buildSamples } from "./sample-builder.ts";

function samplesOf(trajectories: readonly TrajectoryFacts[], options: BuildOptions = {}) {
  return buildSamples([groupOf("g", trajectories)], options).samples;
}

/** Two replies, the second prompt being the first prompt, its reply and a token in between. */
const conversation: TrajectoryFacts = {
  turns: [
    { promptIds: [10, 11], replyIds: [20, 21], reward: 0.5, version: 3 },
    { promptIds: [10, 11, 20, 21, 30], replyIds: [40], reward: 0.25, version: 4 },
  ],
  score: 2,
};

/** The second prompt tells the first reply differently. */
const rewritten: TrajectoryFacts = {
  turns: [
    { promptIds: [10], replyIds: [20, 21], reward: 0.5, stateKey: "start" },
    { promptIds: [10, 20, 30], replyIds: [40], reward: 0.25, stateKey: "later" },
    { promptIds: [10, 20, 30, 40, 31], replyIds: [41], reward: 0.125, stateKey: "last" },
  ],
  score: 2,
};

test("turns that extend each other are one sample, with what is known of each token at its place", () => {
  const [sample, ...others] = samplesOf([conversation]);
  expect(others).toEqual([]);
  expect([...sample!.tokenIds]).toEqual([10, 11, 20, 21, 30, 40]);
  expect([...sample!.lossMask]).toEqual([0, 0, 1, 1, 0, 1]);
  expect([...sample!.versions]).toEqual([-1, -1, 3, 3, -1, 4]);
  expect([...sample!.samplerLogprobs]).toEqual([0, 0, -0.2, -0.21, 0, -0.4].map(Math.fround));
  // Of each turn on its last token; the score of the whole on the last one.
  expect([...sample!.rewards]).toEqual([0, 0, 0, 0.5, 0, 2.25]);
  expect(sample).toMatchObject({ group: 0, trajectory: 0, turn: 0, stateKey: "turn 0", isTruncated: false });
});

test("where a prompt breaks the tokens before it a new sample is forked, in which only its own replies count", () => {
  const [first, second, ...others] = samplesOf([rewritten]);
  expect(others).toEqual([]);
  expect([...first!.tokenIds]).toEqual([10, 20, 21]);
  expect([...second!.tokenIds]).toEqual([10, 20, 30, 40, 31, 41]);
  expect([...second!.lossMask]).toEqual([0, 0, 0, 1, 0, 1]);
  expect([first, second]).toMatchObject([
    { trajectory: 0, turn: 0, stateKey: "start" },
    { trajectory: 0, turn: 1, stateKey: "later" },
  ]);
});

test("a prompt that is shorter than the tokens before it forks too", () => {
  const cut = { turns: [conversation.turns[0]!, { promptIds: [10, 11, 20], replyIds: [50] }] };
  expect(samplesOf([cut]).map(({ tokenIds }) => [...tokenIds])).toEqual([
    [10, 11, 20, 21],
    [10, 11, 20, 50],
  ]);
});

describe("every reward of a trajectory lies once", () => {
  const rewardsOf = (facts: TrajectoryFacts, options?: BuildOptions) =>
    samplesOf([facts], options).map(({ rewards }) => [...rewards]);

  test("on the last token of the turn that earned it, and the score on the last one of all", () => {
    expect(rewardsOf(rewritten)).toEqual([
      [0, 0, 0.5],
      [0, 0, 0, 0.25, 0, 2.125],
    ]);
  });

  test("that of a turn without a token goes to the turn before it, or to the first", () => {
    const [first, last] = conversation.turns;
    const silent = { promptIds: [1, 2, 3], replyIds: [], reward: 8 };
    expect(rewardsOf({ turns: [first!, silent, last!], score: 2 })).toEqual([[0, 0, 0, 8.5, 0, 2.25]]);
    expect(rewardsOf({ turns: [silent, first!] })).toEqual([[0, 0, 0, 8.5]]);
  });

  test("that of a sample that is too long goes to the sample before it", () => {
    expect(rewardsOf(rewritten, { maxTokens: 5 })).toEqual([[0, 0, 2.875]]);
  });
});

test("failed and aborted trajectories give no samples, and the numbers of the others have no gaps", () => {
  const error = new RerollError("ENV_FAILED", "boom");
  const ends: TrajectoryFacts["end"][] = [
    { kind: "failed", stage: "environment", error },
    { kind: "completed" },
    { kind: "aborted" },
    { kind: "truncated", limit: "turns" },
  ];
  const groups = [
    groupOf(
      "a",
      ends.map((end, i) => ({ turns: [{ promptIds: [i], replyIds: [9] }], ...(end && { end }) })),
    ),
    groupOf("b", [{ turns: [{ promptIds: [7], replyIds: [9] }] }]),
  ];
  const { samples } = buildSamples(groups);
  expect(
    samples.map(({ tokenIds, group, trajectory, isTruncated }) => [tokenIds[0], group, trajectory, isTruncated]),
  ).toEqual([
    [1, 0, 0, false],
    [3, 0, 1, true],
    [7, 1, 2, false],
  ]);
});

test("a turn without a single token is left out, and does not break the turns around it", () => {
  const [first, last] = conversation.turns;
  const silent = { promptIds: [1, 2, 3], replyIds: [] };
  const [sample, ...others] = samplesOf([{ turns: [first!, silent, last!] }]);
  expect(others).toEqual([]);
  expect([...sample!.tokenIds]).toEqual([10, 11, 20, 21, 30, 40]);
  expect(samplesOf([{ turns: [silent] }])).toEqual([]);
});

test("the turn of a sample is its number in the trajectory, silent ones counted", () => {
  const silent = { promptIds: [1, 2, 3], replyIds: [] };
  expect(samplesOf([{ turns: [silent, ...conversation.turns] }])[0]).toMatchObject({ turn: 1, stateKey: "turn 1" });
});

test("samples that are too long are left out and counted, and so is everything else", () => {
  const { samples, metrics } = buildSamples([groupOf("g", [conversation, rewritten])], { maxTokens: 5 });
  expect(samples.map(({ tokenIds }) => tokenIds.length)).toEqual([3]);
  expect(metrics).toEqual({
    "experience/rows": 1,
    "experience/forks": 1,
    "experience/too_long": 2,
    "experience/tokens": 3,
    "experience/loss_tokens": 2,
  });
});

describe("rows with a teacher", () => {
  const teacherOf = () => "wise";
  /** The conversation as a teacher reads it whose context is 1, 2. */
  const led: TrajectoryFacts = {
    turns: [
      { ...conversation.turns[0]!, twinIds: [1, 2, 10, 11] },
      { ...conversation.turns[1]!, twinIds: [1, 2, 10, 11, 20, 21, 30] },
    ],
  };

  test("the teacher reads its own prompt, and then the very tokens of the row", () => {
    const [sample] = samplesOf([led], { teacherOf });
    expect([...sample!.tokenIds]).toEqual([10, 11, 20, 21, 30, 40]);
    expect(sample!.teacher).toEqual({ name: "wise", promptIds: Int32Array.of(1, 2, 10, 11) });
    expect(samplesOf([conversation], { teacherOf })[0]!.teacher).toEqual({ name: "wise" });
    expect(samplesOf([led])[0]).not.toHaveProperty("teacher");
  });

  test.each([
    ["a template that tells the reply otherwise in the context", [1, 2, 10, 11, 20, 99, 30], {}],
    ["a context that does not fit a forward pass", [1, 2, 10, 11, 20, 21, 30], { maxTokens: 7 }],
  ])("%s leaves the row without a teacher, and counts it", (_, twinIds, options) => {
    const changed = { turns: [led.turns[0]!, { ...led.turns[1]!, twinIds }] };
    const { samples, metrics } = buildSamples([groupOf("g", [changed])], { teacherOf, ...options });
    expect(samples).toHaveLength(1);
    expect(samples[0]).not.toHaveProperty("teacher");
    expect(metrics["distillation/untaught_rows"]).toBe(1);
  });

  test("what a server said of each turn is put at its tokens", () => {
    const group = groupOf("g", [conversation]);
    const [trajectory] = group.trajectories;
    const told = [Float32Array.of(-1, -2), Float32Array.of(-3)];
    const turns = trajectory!.turns.map((turn, i) => ({ ...turn, teacherLogprobs: told[i]! }));
    const [sample] = buildSamples([{ ...group, trajectories: [{ ...trajectory!, turns }] }], { teacherOf }).samples;
    expect([...sample!.teacher!.logprobs!]).toEqual([0, 0, -1, -2, 0, -3]);
  });
});

test("the rows of a group lie in one piece of memory, each with its own part", () => {
  const samples = samplesOf([conversation, rewritten]);
  expect(samples.map(({ tokenIds }) => [...tokenIds])).toEqual([
    [10, 11, 20, 21, 30, 40],
    [10, 20, 21],
    [10, 20, 30, 40, 31, 41],
  ]);
  expect(samples.map(({ lossMask }) => lossMask.join(""))).toEqual(["001101", "011", "000101"]);
  expect(
    new Set(
      samples.flatMap(({ tokenIds, rewards, lossMask }) => [tokenIds, rewards, lossMask].map((one) => one.buffer)),
    ).size,
  ).toBe(1);
});

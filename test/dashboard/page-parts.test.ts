/** The parts of the page that need no browser. */
import { signal } from "@preact/signals";
import { describe, expect, test } from "vitest";
import { boardSymbols, readBoard } from "../../dashboard/src/boards/read-board.ts";
import { handleKey, pan, type Range, zoom } from "../../dashboard/src/charts/chart-window.ts";
import { MORE, sectionsOf } from "../../dashboard/src/charts/metric-sections.ts";
import { flattenConfig } from "../../dashboard/src/flatten-config.ts";
import { messageText, toolText } from "../../dashboard/src/parts/message-text.ts";
import { listTokens, turnHeads, worstToken } from "../../dashboard/src/tokens/token-list.ts";
import { lakeSymbols } from "../../src/envs/frozen-lake/lake-text.ts";
import { roomSymbols } from "../../src/envs/sokoban/room-text.ts";
import { trajectory } from "./dashboard-run.ts";

describe("boards", () => {
  const lake = { envs: { ice: { type: "frozen-lake" }, other: { type: "arithmetic" } } };

  test("a lake is read with and without spaces between its cells", () => {
    const cells = [
      [
        { ground: "ice", piece: "player" },
        { ground: "hole", piece: null },
      ],
      [
        { ground: "ice", piece: null },
        { ground: "goal", piece: null },
      ],
    ];
    expect(readBoard("PO\n_G", lake, "ice")).toEqual(cells);
    expect(readBoard("P O\n_ G", lake, "ice")).toEqual(cells);
  });

  test("the config's symbols decide what a cell is", () => {
    const letters = { envs: { room: { type: "sokoban", symbols: "letters" } } };
    expect(readBoard("WC@", letters, "any")).toEqual([
      [
        { ground: "wall", piece: null },
        { ground: "target", piece: "box" },
        { ground: "target", piece: "player" },
      ],
    ]);
    const words = { envs: { ice: { type: "frozen-lake", symbols: { player: "me", hole: "h", goal: "g", ice: "i" } } } };
    expect(readBoard("me h\ni g", words, "ice")?.[0]?.[0]).toEqual({ ground: "ice", piece: "player" });
  });

  test("the page knows the symbols that the environments have", () => {
    expect(boardSymbols).toEqual({ lake: lakeSymbols, rooms: roomSymbols });
  });

  test("other environments and texts that are no grid have no board", () => {
    expect(readBoard("PO\n_G", lake, "other")).toBe(null);
    expect(readBoard("PO\n_G", {}, "ice")).toBe(null);
    expect(readBoard("PO\n_", lake, "ice")).toBe(null);
    expect(readBoard("What is 2 + 2?", lake, "ice")).toBe(null);
    expect(readBoard(null, lake, "ice")).toBe(null);
  });
});

describe("tokens", () => {
  const record = trajectory(
    { step: 1, id: "a" },
    { policyLogprobs: [-0.1, -0.5, -0.35], lossMask: [true, true, false] },
  );
  const answer = { record, group: [], advantage: 0.5, isAdvantageRecorded: false, texts: null };
  const tokens = listTokens(answer);

  test("prompt tokens have no numbers, reply tokens have all that is known", () => {
    expect(tokens.map(({ text, isLoss }) => [text, isLoss])).toEqual([
      ["[1]", false],
      ["[2]", false],
      ["[3]", true],
      ["[4]", true],
      ["[5]", false],
    ]);
    expect(tokens[0]).toMatchObject({ logprob: null, ratio: null, advantage: null, version: null });
    expect(tokens[3]).toMatchObject({ logprob: -2, policyLogprob: -0.5, advantage: 0.5, entropy: null });
    expect(tokens[3]?.ratio).toBeCloseTo(Math.exp(1.5), 12);
  });

  test("a turn says whether it goes on from the one before, or how much of it is as before", () => {
    const [first] = record.turns;
    const turns = [
      first!,
      // All of the 2 + 3 tokens before, and two new ones.
      { ...first!, promptFrom: 5, promptIds: [9, 9] },
      { ...first!, promptFrom: 4, promptIds: [8] },
      { ...first!, promptFrom: 5, promptIds: [] },
    ];
    expect(turnHeads({ ...answer, record: { ...record, turns } })).toEqual([
      "turn 1",
      "turn 2, which goes on from there",
      "turn 3, a prompt of its own: the first 4 of its tokens are as before",
      "turn 4, a prompt of its own: all of its tokens are as before",
    ]);
  });

  test("the worst is where a number is largest, and none where it is not known", () => {
    expect(worstToken(tokens, ({ ratio }) => ratio)).toBe(3);
    expect(worstToken(tokens, ({ entropy }) => entropy)).toBe(-1);
  });
});

describe("the window of charts", () => {
  const all: Range = [0, 100];

  test("zooming in keeps the point that is pointed at, and zooming out ends at all", () => {
    const window = signal<Range | null>(null);
    zoom(window, all, 0.5, 20);
    expect(window.value).toEqual([10, 60]);
    zoom(window, all, 2);
    expect(window.value).toBe(null);
  });

  test("panning moves by a part of what is seen, and keeps the middle on the data", () => {
    const window = signal<Range | null>([10, 20]);
    pan(window, all, 0.5);
    expect(window.value).toEqual([15, 25]);
    pan(window, all, -10);
    expect(window.value).toEqual([-5, 5]);
  });

  test("keys that mean nothing are left alone", () => {
    const window = signal<Range | null>([10, 20]);
    expect(handleKey(window, all, "Tab")).toBe(false);
    expect(handleKey(window, all, "0")).toBe(true);
    expect(window.value).toBe(null);
  });
});

test("metrics stand in their sections, in order, and all others at the end", () => {
  const names = ["train/lr", "rollout_corr/kl", "reward/format", "reward/mean", "env/success", "reward/max"];
  const sections = sectionsOf(names.map((name) => ({ name })));
  expect(sections.map(({ title, metrics }) => [title, metrics.map(({ name }) => name)])).toEqual([
    ["Reward and success", ["reward/mean", "env/success", "reward/format"]],
    ["Sampler against trainer", ["rollout_corr/kl"]],
    [MORE, ["reward/max", "train/lr"]],
  ]);
});

test("the few numbers of a correction that matter most come before its many others; episodes are rewards and lengths", () => {
  const names = [
    "rollout_corr/k3_kl",
    "episode/length",
    "rollout_corr/rollout_is_max",
    "idle/engine",
    "episode/return",
  ];
  const sections = sectionsOf(names.map((name) => ({ name })));
  expect(sections.map(({ title, metrics }) => [title, ...metrics.map(({ name }) => name)])).toEqual([
    ["Reward and success", "episode/return"],
    ["Length", "episode/length"],
    ["Sampler against trainer", "rollout_corr/rollout_is_max"],
    ["Throughput", "idle/engine"],
    ["Rollout correction", "rollout_corr/k3_kl"],
  ]);
});

test("runs on given data show what they learn, and runs with teachers how close they are", () => {
  const names = [
    "preference/nonfinite_fraction",
    "preference/margin",
    "train/loss",
    "validation/loss",
    "distillation/jsd",
  ];
  const sections = sectionsOf(names.map((name) => ({ name })));
  expect(sections.map(({ title, metrics }) => [title, ...metrics.map(({ name }) => name)])).toEqual([
    ["Loss and preferences", "validation/loss", "train/loss", "preference/margin"],
    ["Teachers and reflection", "distillation/jsd"],
    [MORE, "preference/nonfinite_fraction"],
  ]);
});

test("a config is flat by key; lists and empty objects are values", () => {
  expect([...flattenConfig({ a: { b: 1, c: [1, 2] }, d: {}, e: null })]).toEqual([
    ["a.b", "1"],
    ["a.c", "[1,2]"],
    ["d", "{}"],
    ["e", "null"],
  ]);
});

test("a message is shown with its tool calls, and a tool as what it takes", () => {
  const weather = { name: "weather", arguments: '{"city":"Rome"}' };
  const reply = {
    role: "assistant",
    content: "Let me see.",
    tool_calls: [{ id: "c1", type: "function", function: weather }],
  };
  expect(messageText(reply)).toEqual({
    speaker: "assistant",
    text: 'Let me see.\ncalls weather with {"city":"Rome"}',
  });
  expect(messageText({ ...reply, reasoning_content: "Where?", tool_calls: [] }).text).toBe(
    "thinks: Where?\nLet me see.",
  );
  expect(messageText({ role: "tool", content: "19" })).toEqual({ speaker: "tool", text: "19" });
  const properties = { city: { type: "string" }, day: { type: "string" } };
  expect(
    toolText({ type: "function", function: { name: "weather", parameters: { type: "object", properties } } }),
  ).toBe("weather(city, day)");
});

import { expect, test } from "vitest";
import { streamCutFor } from "./paged-stream-kernel.ts";

test("few rows, and heads that are wider than the rings, are left to the other kernel", () => {
  expect([streamCutFor(63, 1024, 64), streamCutFor(512, 1024, 256)]).toEqual([null, null]);
});

test("as many rows as processors have eight warps each", () => {
  expect(streamCutFor(128, 1024, 64)).toEqual({ warps: 8, team: 8, depth: 4, resident: 1, span: 1024 });
});

test("more rows are walked by two or four warps each, so that few are without one in the last round", () => {
  const teams = (rows: number, headSize: number) => {
    const { warps, team, resident } = streamCutFor(rows, 1024, headSize)!;
    return [team, (132 * resident * warps) / team];
  };
  // 132 processors with two blocks of four warps have 264 teams of four or 528 of two, with three blocks 792 of two.
  expect([teams(256, 64), teams(512, 64), teams(768, 64)]).toEqual([
    [4, 264],
    [2, 528],
    [2, 792],
  ]);
  expect([teams(3072, 64), teams(2048, 64)]).toEqual([
    [2, 792],
    [2, 528],
  ]);
  expect([teams(256, 128), teams(1024, 128)]).toEqual([
    [4, 264],
    [2, 528],
  ]);
});

test("rows that are cut are walked by whole blocks, which join them", () => {
  expect(streamCutFor(3072, 8192, 64)).toMatchObject({ warps: 4, team: 4, span: 4096 });
});

test.each([16, 4096, 4112, 262_144, 1_000_000])(
  "rows of %i tokens are cut into at most 64 spans of whole blocks",
  (maxTokens) => {
    const { span } = streamCutFor(512, maxTokens, 64)!;
    expect([span % 16, Math.ceil(maxTokens / span) <= 64]).toEqual([0, true]);
    expect(span).toBeLessThanOrEqual(Math.max(4096, maxTokens / 64 + 16));
  },
);

test("what processors hold at a time fits their shared memory", () => {
  for (const [rows, maxTokens, headSize] of [
    [128, 1024, 64],
    [512, 1024, 64],
    [3072, 1024, 64],
    [3072, 8192, 64],
    [128, 1024, 128],
    [512, 1024, 128],
    [512, 8192, 128],
  ] as const) {
    const { warps, team, depth, resident } = streamCutFor(rows, maxTokens, headSize)!;
    const ring = 1024 + warps * depth * 64 * headSize;
    const sums = warps * 8 * (headSize + 4) * 4;
    const news = (warps / team) * headSize * 4;
    const spans = 2 * 8 * (team === warps ? 64 : 1) * 4;
    // Barriers, maxima, masses; and what each block takes by itself.
    expect(resident * (ring + sums + news + spans + 512 + 1024)).toBeLessThanOrEqual(228 * 1024);
  }
});

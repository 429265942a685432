import { expect, test } from "vitest";
import { streamCutFor } from "./paged-stream-kernel.ts";

test("few rows, and heads that are wider than the rings, are left to the other kernel", () => {
  expect([streamCutFor(63, 1024, 64), streamCutFor(512, 1024, 256)]).toEqual([null, null]);
});

test("as many rows as processors have eight warps each, more have four", () => {
  expect(streamCutFor(128, 1024, 64)).toEqual({ warps: 8, depth: 4, resident: 1, span: 1024 });
  expect(streamCutFor(512, 1024, 64)).toEqual({ warps: 4, depth: 6, resident: 2, span: 1024 });
  expect(streamCutFor(256, 1024, 128)).toEqual({ warps: 4, depth: 2, resident: 2, span: 1024 });
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
  for (const [rows, headSize] of [
    [128, 64],
    [512, 64],
    [128, 128],
    [512, 128],
  ] as const) {
    const { warps, depth, resident } = streamCutFor(rows, 1024, headSize)!;
    const ring = 1024 + warps * depth * 64 * headSize;
    const sums = warps * 8 * (headSize + 4) * 4 + 8 * 64 * 2 * 4 + 1024;
    expect(resident * (ring + sums + 1024)).toBeLessThanOrEqual(228 * 1024);
  }
});

import { expect, test } from "vitest";
import { copyToken, copyTokens, inOnePiece, tokenArrays } from "./sampled-tokens.ts";

/** Four tokens in which no two numbers are equal. */
function fourTokens() {
  const tokens = tokenArrays(4);
  for (let i = 0; i < 4; i++) {
    tokens.tokenIds[i] = 10 + i;
    tokens.samplerLogprobs[i] = -20 - i;
    tokens.drawLogprobs[i] = -30 - i;
    tokens.modelLogprobs[i] = -40 - i;
    tokens.versions[i] = 50 + i;
    tokens.cacheVersions[i] = 60 + i;
  }
  return tokens;
}

/** The third of them. */
const third = {
  tokenIds: Int32Array.of(12),
  samplerLogprobs: Float32Array.of(-22),
  drawLogprobs: Float32Array.of(-32),
  modelLogprobs: Float32Array.of(-42),
  versions: Int32Array.of(52),
  cacheVersions: Int32Array.of(62),
};

test("copied tokens stay as they are when those they come from change, and have the room that was asked for", () => {
  const tokens = fourTokens();
  const [one, some, longer] = [copyToken(tokens, 2), copyTokens(tokens, 2, 3), copyTokens(tokens, 0, 4, 9)];
  for (const values of Object.values(tokens)) values.fill(0);
  expect(one).toEqual(third);
  expect(some).toEqual(third);
  expect([...longer.cacheVersions]).toEqual([60, 61, 62, 63, 0, 0, 0, 0, 0]);
});

test("tokens in one piece are the same tokens over one memory, with their alternatives", () => {
  const { buffer } = inOnePiece(copyToken(fourTokens(), 2)).tokenIds;
  const topLogprobs = [[{ tokenId: 7, logprob: -1 }]];
  const piece = inOnePiece({ ...copyToken(fourTokens(), 2), topLogprobs });
  expect(piece).toEqual({ ...third, topLogprobs });
  expect(buffer.byteLength).toBe(6 * 4);
  const { topLogprobs: _, ...arrays } = piece;
  expect(new Set(Object.values(arrays).map((values) => values.buffer)).size).toBe(1);
});

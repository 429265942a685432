import { expect, test } from "vitest";
import { checkRequest } from "./check-request.ts";
import type { Sampling } from "./generate.ts";

const limits = { vocabSize: 10, contextLength: 8 };
const check = (sampling: Partial<Sampling>) =>
  checkRequest({ promptIds: [1, 2], sampling: { maxTokens: 1, ...sampling } }, limits);

test("a bias may forbid a token with -Infinity, and nothing else that is not finite", () => {
  check({ logitBias: new Map([[3, Number.NEGATIVE_INFINITY]]) });
  for (const bias of [Number.POSITIVE_INFINITY, Number.NaN]) {
    expect(() => check({ logitBias: new Map([[3, bias]]) })).toThrow(
      `logitBias has 3: ${bias}. Keys are token ids below 10; values are finite, or -Infinity`,
    );
  }
  expect(() => check({ logitBias: new Map([[10, 1]]) })).toThrow("logitBias has 10: 1.");
});

test("a prompt must be token ids that leave room for a reply", () => {
  const ask = (promptIds: number[]) => () => checkRequest({ promptIds, sampling: { maxTokens: 1 } }, limits);
  expect(ask([])).toThrow("promptIds is empty");
  expect(ask([1, 10])).toThrow("promptIds[1] is 10. Token ids are integers from 0 to 9.");
  expect(ask([0.5])).toThrow("promptIds[0] is 0.5");
  expect(ask(new Array(8).fill(1))).toThrow("The prompt has 8 tokens");
  ask(new Array(7).fill(1))();
});

import { describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import { memoryStats } from "../../torch/memory.ts";
import { greedy } from "./greedy.ts";

const prompts = [
  [1, 2, 3],
  [4, 5, 6],
];

test("the cache changes the time, not the tokens", () => {
  const model = tinyModel(tinyConfig("qwen2"));
  const withCache = greedy(model, prompts, { numTokens: 12 });
  expect(greedy(model, prompts, { numTokens: 12, useCache: false })).toEqual(withCache);
  expect(withCache.map((row) => row.length)).toEqual([12, 12]);
  model.dispose();
});

test("suppressed tokens are never chosen, the best of the others is", () => {
  const model = tinyModel(tinyConfig("llama"));
  const [first] = greedy(model, prompts, { numTokens: 1 }).map((row) => row[0]!);
  const suppressedIds = [first!, 0, 28];
  for (const useCache of [true, false]) {
    const rows = greedy(model, prompts, { numTokens: 20, suppressedIds, useCache });
    expect(rows.flat().filter((token) => suppressedIds.includes(token))).toEqual([]);
  }
  // With all but one token ruled out, that one is left.
  const all = Array.from({ length: 29 }, (_, id) => id).filter((id) => id !== 17);
  expect(greedy(model, prompts, { numTokens: 2, suppressedIds: all })).toEqual([
    [17, 17],
    [17, 17],
  ]);
  model.dispose();
});

describe("wrong arguments", () => {
  const model = tinyModel(tinyConfig("llama"));

  test.each([[[[]]], [[[1, 2], [3]]], [[]]])("prompts %j are refused", (wrong) => {
    expect(() => greedy(model, wrong, { numTokens: 1 })).toThrow("all of one length above 0");
  });

  test.each([29, -1, 0.5, Number.NaN])("id %f in a prompt is refused", (id) => {
    expect(() => greedy(model, [[1, id]], { numTokens: 1 })).toThrow(
      `prompts must hold token ids from 0 to 28: got ${id}`,
    );
  });

  test.each([-1, 1.5, Number.NaN])("%f tokens are refused", (numTokens) => {
    expect(() => greedy(model, prompts, { numTokens })).toThrow(`numTokens must be an integer of at least 0: got`);
  });

  test.each([29, -1, 0.5])("suppressed id %f is refused", (id) => {
    expect(() => greedy(model, prompts, { numTokens: 1, suppressedIds: [id] })).toThrow(`from 0 to 28: got ${id}`);
  });
});

test("generation frees what it made, also when it fails", () => {
  const model = tinyModel(tinyConfig("llama"));
  noGrad(() => greedy(model, prompts, { numTokens: 8 }));
  const { liveBytes, liveTensors } = memoryStats();
  greedy(model, prompts, { numTokens: 8 });
  expect(() => greedy(model, [[1, 99]], { numTokens: 8 })).toThrow();
  expect(memoryStats()).toMatchObject({ liveBytes, liveTensors });
  model.dispose();
});

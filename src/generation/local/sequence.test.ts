import { expect, test } from "vitest";
import { Sequence } from "./sequence.ts";

const numbers = Array.from({ length: 1000 }, (_, i) => 1 + i);

/** Everything that is known of the token with this number. */
const tokenOf = (i: number) => ({
  tokenIds: Int32Array.of(i),
  samplerLogprobs: Float32Array.of(-i),
  drawLogprobs: Float32Array.of(-i / 2),
  modelLogprobs: Float32Array.of(-i / 4),
  versions: Int32Array.of(3 * i),
  cacheVersions: Int32Array.of(2 * i),
  topLogprobs: [[{ tokenId: i, logprob: -i / 4 }]],
});

test.each([1, 3, 200])("a reply after %i tokens of prompt may outgrow its room again and again", (numPrompt) => {
  const promptIds = Array.from({ length: numPrompt }, (_, i) => 7 + i);
  const sequence = new Sequence(5, { promptIds, sampling: { maxTokens: 1000 }, numTopLogprobs: 1 }, 0);
  const singles = numbers.map((i) => {
    sequence.cacheVersion = 2 * i;
    sequence.append(tokenOf(i), 0, 3 * i);
    return sequence.lastDrawn();
  });
  expect(Array.from(sequence.tokens)).toEqual([...promptIds, ...numbers]);
  // Tokens that were delivered are copies: what came later has not changed them.
  expect(singles).toEqual(numbers.map(tokenOf));
  const reply = sequence.reply();
  const names = ["tokenIds", "samplerLogprobs", "drawLogprobs", "modelLogprobs", "versions", "cacheVersions"] as const;
  for (const name of names) expect(Array.from(reply[name])).toEqual(numbers.map((i) => tokenOf(i)[name][0]));
  expect(reply.topLogprobs).toEqual(numbers.map((i) => tokenOf(i).topLogprobs[0]));
  expect(new Set(names.map((name) => reply[name].buffer)).size).toBe(1);
});

test("alternatives that were delivered are copies: whoever changes them changes neither the reply nor what is delivered later", () => {
  const sequence = new Sequence(5, { promptIds: [7], sampling: { maxTokens: 3 }, numTopLogprobs: 1 }, 0);
  sequence.append(tokenOf(4), 0, 0);
  const [first] = sequence.lastDrawn().topLogprobs!;
  Object.assign(first![0]!, { logprob: 99 });
  expect(sequence.reply().topLogprobs).toEqual(tokenOf(4).topLogprobs);
});

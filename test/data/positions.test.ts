/** Every source, alone and inside of others: stop anywhere, restore in a new object, and the rest is the same. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { buildSource } from "../../src/data/build-source.ts";
import type { DataChoice } from "../../src/data/data-options.ts";
import type { PromptSource } from "../../src/data/prompt-source.ts";
import type { JsonValue, Prompt } from "../../src/flow/prompt.ts";
import { deriveSeed } from "../../src/random/random.ts";

const makePrompt = (seed: number): Prompt => ({
  id: `env:${seed}`,
  domain: "env",
  seed,
  messages: [],
  truth: null,
  extra: {},
});

const epochs = fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined });
const rows = fc.record({
  type: fc.constant("rows" as const),
  name: fc.constantFrom("a", "b"),
  rows: fc
    .integer({ min: 1, max: 6 })
    .map((size) => Array.from({ length: size }, (_, i) => ({ question: `question ${i}`, answer: i }))),
  epochs,
  shuffle: fc.boolean(),
});
const env = fc.record({
  type: fc.constant("env" as const),
  env: fc.constant("env"),
  part: fc.constantFrom("train" as const, "validation" as const),
  numPrompts: fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }),
  epochs,
});
const { choice } = fc.letrec<{ choice: DataChoice; mix: DataChoice; curriculum: DataChoice }>((tie) => ({
  choice: fc.oneof({ depthSize: "small", maxDepth: 3 }, rows, env, tie("mix"), tie("curriculum")),
  mix: fc.record({
    type: fc.constant("mix" as const),
    parts: fc.array(fc.record({ ratio: fc.integer({ min: 1, max: 9 }), source: tie("choice") }), {
      minLength: 1,
      maxLength: 3,
    }),
    whenPartEnds: fc.constantFrom("stop" as const, "drop" as const),
  }),
  curriculum: fc.record({
    type: fc.constant("curriculum" as const),
    source: tie("choice"),
    low: fc.constant(0.25),
    high: fc.constant(0.75),
    explore: fc.constant(0.3),
  }),
}));

async function build(data: DataChoice, seed: number): Promise<PromptSource> {
  return (await buildSource(data, { seed, envs: { env: { makePrompt } } })).source;
}

/** Asks for prompts in the given counts and records made-up rewards of each. */
async function play(source: PromptSource, counts: readonly number[]): Promise<string[]> {
  const ids: string[] = [];
  for (const count of counts) {
    const prompts = await source.next(count);
    for (const { id } of prompts)
      source.record?.(id, [deriveSeed(ids.length, id) % 2, deriveSeed(ids.length, id, 1) % 2]);
    ids.push(...prompts.map(({ id }) => id));
  }
  return ids;
}

const throughJson = (position: JsonValue): JsonValue => JSON.parse(JSON.stringify(position)) as JsonValue;
const counts = fc.array(fc.nat(9), { maxLength: 8 });

describe("positions", () => {
  test("a source goes on exactly where the position was taken", async () => {
    await fc.assert(
      fc.asyncProperty(choice, fc.nat(1000), counts, counts, async (data, seed, before, after) => {
        const source = await build(data, seed);
        await play(source, before);
        const position = throughJson(source.position());
        const restored = await build(data, seed);
        await restored.restore(position);
        expect(restored.position()).toEqual(source.position());
        expect(await play(restored, after)).toEqual(await play(source, after));
        expect(restored.position()).toEqual(source.position());
      }),
      { numRuns: 400 },
    );
  });

  test("a source that has played on goes back to a position, which stayed as it was taken", async () => {
    await fc.assert(
      fc.asyncProperty(choice, counts, counts, async (data, before, after) => {
        const source = await build(data, 1);
        await play(source, before);
        const position = source.position();
        const copy = throughJson(position);
        const first = await play(source, after);
        expect(position).toEqual(copy);
        await source.restore(position);
        expect(await play(source, after)).toEqual(first);
      }),
      { numRuns: 100 },
    );
  });

  test("prompts do not depend on how many are asked for at once", async () => {
    await fc.assert(
      fc.asyncProperty(choice, fc.nat(20), async (data, total) => {
        const whole = (await (await build(data, 1)).next(total)).map(({ id }) => id);
        const source = await build(data, 1);
        const single: string[] = [];
        for (let i = 0; i < total; i++) single.push(...(await source.next(1)).map(({ id }) => id));
        expect(single).toEqual(whole);
      }),
      { numRuns: 100 },
    );
  });

  test("a position of a source of another making is refused", async () => {
    await fc.assert(
      fc.asyncProperty(choice, choice, async (data, other) => {
        const position = (await build(data, 1)).position();
        const source = await build(other, 1);
        fc.pre(JSON.stringify(source.position()) !== JSON.stringify(position));
        await expect(source.restore(position)).rejects.toMatchObject({ code: "STATE_MISMATCH" });
      }),
      { numRuns: 200 },
    );
  });
});

/** Constrained replies of a real engine with a random model: always valid, and recorded as what they were drawn from. */
import { afterAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { type ToolCallFormatName, toolCallFormats } from "../../src/chat/tool-calls/table.ts";
import { ToolCallReader } from "../../src/chat/tool-calls/tool-call-reader.ts";
import type { JsonValue } from "../../src/flow/prompt.ts";
import { Guides } from "../../src/generation/constraint/guides.ts";
import type { Constraint, Sampling } from "../../src/generation/generate.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { compileSchema } from "../../src/rewards/json-schema/validate.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { randomSchemas } from "./random-schema.ts";

const VOCABULARY = 264;
const tokenizer = createTokenizer(byteTokenizerFiles(), "bytes");
const model = tinyModel(tinyConfig("qwen3", { vocabSize: VOCABULARY, maxPositions: 8192 }));
const engine = new LocalEngine(model, { tokenizer, contextLength: 8192, numBlocks: 4096 });
afterAll(async () => {
  await engine.close();
  model.dispose();
});

const { stopIds } = tokenizer;
const promptIds = tokenizer.encode("?");

async function sample(constraint: Constraint, more: Partial<Sampling> = {}, numTopLogprobs = 0) {
  const sampling = { maxTokens: 6000, stopIds, constraint, ...more };
  const generation = await engine.generate({ promptIds, sampling, numTopLogprobs });
  return { ...generation, text: tokenizer.decode(generation.tokenIds.subarray(0, -1)) };
}

test("replies to random schemas, drawn at temperature 1 from a random model, are all valid", async () => {
  const schemas = randomSchemas(50, 7);
  // Ends come sooner than a random model would have them. bench/structured-output.ts draws a thousand without this.
  const logitBias = new Map(Array.from('"]},', (character) => [character.charCodeAt(0), 4]));
  const problems = await Promise.all(
    schemas.map(async (schema, seed) => {
      const { text, finish } = await sample({ kind: "json-schema", schema }, { seed, logitBias });
      const problem = finish.kind === "stop" ? compileSchema(schema)(JSON.parse(text) as JsonValue) : finish.kind;
      return problem === undefined ? [] : [{ schema, text, problem }];
    }),
  );
  expect(problems.flat()).toEqual([]);
});

test("log-probs are those of the masked distribution; the sampler's are of the whole one", async () => {
  const constraint: Constraint = { kind: "regex", pattern: "[a-f]{3}(é|ü)?" };
  const temperature = 0.7;
  const drawn = await sample(constraint, { seed: 3, temperature }, VOCABULARY);
  const guide = await new Guides(tokenizer, VOCABULARY).open(constraint, stopIds);
  for (const [position, tokenId] of drawn.tokenIds.entries()) {
    const scores = new Float64Array(VOCABULARY);
    for (const { tokenId: id, logprob } of drawn.topLogprobs?.[position] ?? []) scores[id] = logprob / temperature;
    const { mask } = guide;
    const isAllowed = (id: number) => ((mask[id >> 5]! >> (id & 31)) & 1) === 1;
    const logSum = (ids: readonly number[]) => Math.log(ids.reduce((sum, id) => sum + Math.exp(scores[id]!), 0));
    const all = Array.from(scores, (_, id) => id);
    expect(isAllowed(tokenId)).toBe(true);
    expect(drawn.drawLogprobs[position]).toBeCloseTo(scores[tokenId]! - logSum(all.filter(isAllowed)), 4);
    expect(drawn.samplerLogprobs[position]).toBeCloseTo(scores[tokenId]! - logSum(all), 4);
    guide.accept(tokenId);
    await guide.ready;
  }
  guide.dispose();
  expect(drawn.text).toMatch(/^[a-f]{3}[éü]?$/);
});

test("a choice, forced calls and at most one call are what they say", async () => {
  const tools = [
    {
      name: "weather",
      parameters: { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] },
    },
    { name: "stop", parameters: {} },
  ];
  const seeds = Array.from({ length: 8 }, (_, seed) => seed);
  const texts = (constraint: Constraint, more: Partial<Sampling> = {}) =>
    Promise.all(seeds.map(async (seed) => (await sample(constraint, { seed, ...more })).text));
  for (const text of await texts({ kind: "choice", choices: ["yes", "no"] })) expect(["yes", "no"]).toContain(text);
  const call =
    /<tool_call>\n\{"name": "(weather", "arguments": \{"city": "(Oslo|Rome)"|stop", "arguments": \{.*)\}\}\n<\/tool_call>/s;
  for (const text of await texts({ kind: "tool-calls", tools, isSingle: false })) expect(text).toMatch(call);
  for (const text of await texts({ kind: "tool-calls", tools: tools.slice(0, 1), isSingle: true })) {
    expect(text).toMatch(/^<tool_call>\n\{"name": "weather", "arguments": \{"city": "(Oslo|Rome)"\}\}\n<\/tool_call>$/);
  }
  // A strong bias makes the model begin a call at once, and another one behind it if that were allowed.
  const open = [..."<tool_call>"].map((character) => [character.charCodeAt(0), 30] as const);
  const single = await texts(
    { kind: "at-most-one-call", tools: tools.slice(0, 1) },
    { logitBias: new Map(open), maxTokens: 400 },
  );
  for (const text of single) expect(text.split("</tool_call>").length).toBeLessThanOrEqual(2);
});

test("constrained and free requests run together, and a free one draws what it draws alone", async () => {
  const free = { promptIds, sampling: { maxTokens: 20, seed: 5, stopIds } };
  const alone = await engine.generate(free);
  const [together] = await Promise.all([
    engine.generate(free),
    sample({ kind: "json-schema", schema: { type: "object" } }, { seed: 1 }),
    sample({ kind: "regex", pattern: "x{30}" }, { seed: 2 }),
  ]);
  expect([...together.tokenIds]).toEqual([...alone.tokenIds]);
});

test("greedy draws obey too, top-p takes its share of what is allowed, and an aborted one leaves nothing behind", async () => {
  const constraint: Constraint = { kind: "regex", pattern: "[pq]{4}" };
  expect((await sample(constraint, { temperature: 0 })).text).toMatch(/^[pq]{4}$/);
  expect((await sample(constraint, { topP: 0.1, seed: 1 })).drawLogprobs.every((logprob) => logprob === 0)).toBe(true);
  const stop = new AbortController();
  const sampling = { maxTokens: 500, stopIds, constraint: { kind: "json-schema", schema: {} } as const };
  const aborted = engine.generate({ promptIds, sampling, signal: stop.signal });
  stop.abort();
  expect((await aborted).finish.kind).toBe("aborted");
  expect(engine.status()).toMatchObject({ queuedRequests: 0, runningRequests: 0 });
});

test("what cannot be enforced is refused with the place and the reason", async () => {
  const refused = async (constraint: Constraint, more: Partial<Sampling> = {}) => {
    const message = await sample(constraint, more).then(
      () => "taken",
      (error: Error) => error.message,
    );
    return message;
  };
  const schema = (value: unknown): Constraint => ({ kind: "json-schema", schema: value });
  expect(await refused(schema({ type: "object", properties: { a: { not: {} } } }))).toContain("#/properties/a has not");
  expect(await refused(schema({ $ref: "#/$defs/none" }))).toContain(
    "refers to #/$defs/none, which is not in the schema",
  );
  expect(await refused(schema({ type: "integer", minimum: 3, maximum: 2 }))).toContain(
    "bounds that no integer lies between",
  );
  expect(await refused(schema({ type: "integer", minimum: 1e15 }))).toContain("bounds that no integer lies between");
  expect(await refused(schema({ type: "number", maximum: -1e20 }))).toContain("bounds that no number lies between");
  const draft4 = { type: "number", minimum: 5, exclusiveMinimum: true };
  expect(await refused(schema(draft4))).toContain("must have a number as exclusiveMinimum");
  expect(await refused(schema({ type: [] }))).toContain("has an empty list as type");
  const bounded = { type: "string", format: "email", maxLength: 12 };
  expect(await refused(schema(bounded))).toContain("has format and a length side by side");
  expect(await refused(schema({ required: "a" }))).toContain("# must have a list of texts as required");
  expect(await refused(schema({ required: [1] }))).toContain("# must have a list of texts as required");
  expect(await refused(schema({ properties: [] }))).toContain("# must have an object as properties");
  expect(await refused(schema({ prefixItems: {} }))).toContain("# must have a list as prefixItems");
  expect(await refused(schema({ pattern: 1 }))).toContain("# must have a text as pattern");
  expect(await refused(schema({ prefixItems: [{}, {}], items: false, maxItems: 1 }))).toContain("fewer items than");
  expect(await refused(schema({ $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }] } } }))).toContain(
    "which it is itself",
  );
  const endless = { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] };
  expect(await refused(schema(endless))).toContain("has no value that ends");
  expect(await refused(schema({ oneOf: [{ type: "integer" }, { type: "number" }] }))).toContain(
    "branches that may both match",
  );
  expect(await refused({ kind: "regex", pattern: "(?<=a)b" })).toContain("looks ahead or behind");
  expect(await refused({ kind: "regex", pattern: "(" })).toContain("is not a regular expression");
  expect(await refused({ kind: "choice", choices: [] })).toContain("at least one text");
  expect(await refused({ kind: "regex", pattern: "a" }, { stopIds: [] })).toContain("needs stopIds");
});

test("a format that is not followed is an annotation: the length beside it counts, and a name of every object is none", async () => {
  for (const format of ["uri", "toString"]) {
    const schema = { type: "string", format, minLength: 2, maxLength: 3 };
    const { text } = await sample({ kind: "json-schema", schema }, { seed: 1 });
    expect([2, 3]).toContain([...(JSON.parse(text) as string)].length);
  }
  const schema = { type: "string", format: "email", pattern: "^[ab]{3}$" };
  expect((await sample({ kind: "json-schema", schema }, { seed: 1 })).text).toMatch(/^"[ab]{3}"$/);
});

test("recursion, and branches told apart by a constant, are followed", async () => {
  const tree = {
    $defs: {
      node: {
        type: "object",
        properties: { value: { type: "integer" }, next: { anyOf: [{ type: "null" }, { $ref: "#/$defs/node" }] } },
        required: ["value", "next"],
      },
    },
    $ref: "#/$defs/node",
  };
  const shape = (kind: string) => ({
    type: "object",
    properties: { kind: { const: kind } },
    required: ["kind"],
    additionalProperties: false,
  });
  for (const schema of [tree, { oneOf: [shape("a"), shape("b"), { type: "null" }] }]) {
    const { text } = await sample({ kind: "json-schema", schema }, { seed: 4 });
    expect(compileSchema(schema as JsonValue)(JSON.parse(text) as JsonValue)).toBeUndefined();
  }
});

test("formats that would hang the compiler or break it are refused, and others are served after them", async () => {
  const refs = Object.fromEntries(Array.from({ length: 2500 }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]));
  const nested = (depth: number) =>
    Array.from({ length: depth }).reduce((items: object) => ({ type: "array", items }), {});
  const hostile: Constraint[] = [
    ...[
      "((a{1000}){1000}){1000}",
      `${"(".repeat(1000)}a${")".repeat(1000)}`,
      `${"(a|".repeat(100)}b${")".repeat(100)}`,
    ].map((pattern): Constraint => ({ kind: "regex", pattern })),
    ...[{ $ref: "#/%" }, nested(1000)].map((schema): Constraint => ({ kind: "json-schema", schema })),
  ];
  const begun = engine.generate({ promptIds, sampling: { maxTokens: 200, stopIds: [], seed: 1 } });
  const codes = hostile.map((constraint) =>
    sample(constraint).then(
      () => "taken",
      (error: { code?: string }) => error.code,
    ),
  );
  // What needs no format goes on meanwhile.
  expect((await begun).tokenIds).toHaveLength(200);
  expect(await Promise.all(codes)).toEqual(hostile.map(() => "INVALID_REQUEST"));
  const schema = { type: "string", enum: ["yes"], $defs: refs };
  expect((await sample({ kind: "json-schema", schema })).text).toBe('"yes"');
}, 30_000);

test.each(Object.keys(toolCallFormats) as ToolCallFormatName[])(
  "a forced call in the format %s is one that is read, from any model",
  async (format) => {
    const parameters = { type: "object", properties: { x: { enum: [1, "a"] } }, required: ["x"] };
    const tools = [
      { name: "first", parameters },
      { name: "second", parameters },
    ];
    for (const seed of [1, 2]) {
      const { text, finish } = await sample({ kind: "tool-calls", tools, isSingle: true, format }, { seed });
      const reader = new ToolCallReader(() => "id", toolCallFormats[format]);
      const parts = [...reader.push(text), ...reader.end()];
      expect(finish.kind).toBe("stop");
      expect(parts).toMatchObject([
        { kind: "tool-call", call: { function: { name: expect.stringMatching(/^(first|second)$/) } } },
      ]);
      const called = parts[0]?.kind === "tool-call" ? JSON.parse(parts[0].call.function.arguments) : null;
      expect([1, "a"]).toContain(called.x);
    }
  },
);

test("a prompt that its caller changes while the grammar is compiled is the one that was asked for", async () => {
  const constraint: Constraint = { kind: "regex", pattern: "[0-9]{4}" };
  const sampling = { maxTokens: 8, stopIds, constraint, seed: 5 };
  const expected = await engine.generate({ promptIds, sampling });
  const own = [...promptIds];
  const asked = engine.generate({ promptIds: own, sampling });
  own.push(...new Array<number>(9000).fill(999_999));
  const { tokenIds, usage } = await asked;
  expect([...tokenIds]).toEqual([...expected.tokenIds]);
  expect(usage.promptTokens).toBe(promptIds.length);
});

/** Replies drawn at random from what their guide allows. A matcher that is shown every token must allow the same, token for token. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import { uniformAt } from "../local/uniform.ts";
import { type Constraint, grammarOf } from "./constraint.ts";
import { GrammarStates } from "./grammar-states.ts";
import { Guides } from "./guides.ts";
import { INSIDE_MARK, ReplyPosition } from "./reply-position.ts";
import { SharedMasks } from "./shared-masks.ts";
import { TokenLengths } from "./string-lengths.ts";
import { spellVocabulary } from "./token-spelling.ts";
import { compileWith, type GrammarMatcher, openCompiler } from "./xgrammar.ts";

const tokenizer = await loadTokenizer(fileURLToPath(new URL("../../../fixtures/tokenizer", import.meta.url)));
const { stopIds, vocabularySize } = tokenizer;
const tokens = spellVocabulary(tokenizer);
const { xgrammar, compiler } = await openCompiler({ tokens, numScores: vocabularySize, stopIds });
const markIds = tokens.flatMap((_, id) => (tokenizer.decode([id]) === INSIDE_MARK ? [id] : []));

const text = { type: "string" };
const named = { type: "object", properties: { name: text, age: { type: "integer" } }, required: ["name", "age"] };
const either = (...anyOf: readonly object[]): Constraint => ({ kind: "json-schema", schema: { anyOf } });
const withKind = (kind: string, more: object) => ({
  type: "object",
  properties: { kind: { const: kind }, ...more },
  required: ["kind"],
});
const tool = { name: "look", parameters: { type: "object", properties: { for: text }, required: ["for"] } };

interface Case {
  readonly name: string;
  readonly constraint: Constraint;
  /** With what replies begin, where chance would not get there. */
  readonly opening?: string;
}

const schema = (schema: unknown): Constraint => ({ kind: "json-schema", schema });
const cases: readonly Case[] = [
  { name: "strings in objects", constraint: schema({ type: "array", items: named, minItems: 3 }) },
  { name: "a string that is not empty", constraint: schema({ type: "string", minLength: 1 }) },
  { name: "names that are free", constraint: schema({ type: "object", additionalProperties: text }) },
  { name: "anything", constraint: schema(true) },
  { name: "a string or a list of them", constraint: either(text, { type: "array", items: text }) },
  { name: "objects that begin with other names", constraint: either(named, withKind("yes", { why: text })) },
  {
    name: "two kinds told apart by a constant",
    constraint: either(withKind("one", { a: text }), withKind("other", { b: text })),
  },
  {
    name: "a name that is free or given",
    constraint: either(named, { ...named, properties: { name: { const: "" }, age: text } }),
  },
  {
    name: "forced calls",
    constraint: { kind: "tool-calls", tools: [tool, { name: "wait", parameters: {} }], isSingle: false },
  },
  { name: "free text", constraint: { kind: "at-most-one-call", tools: [tool] } },
  {
    name: "free text with a call",
    constraint: { kind: "at-most-one-call", tools: [tool] },
    opening: 'Say "a" <b> <tool_call>\n{"name": "look", "arguments": {"for": "',
  },
  {
    name: "a call that looks like JSON, or JSON",
    constraint: { kind: "json-or-calls", schema: named, tools: [tool], isSingle: true, format: "llama-json" },
  },
  { name: "a pattern", constraint: { kind: "regex", pattern: '(ab|[a-c]{2,4} "?)+' } },
  { name: "a choice", constraint: { kind: "choice", choices: ["yes", "yes, but", "no"] } },
];

test.each(cases)(
  "$name: what a guide allows is what a matcher allows that sees every token",
  async ({ constraint, opening = "" }) => {
    const start = tokenizer.encode(opening);
    const guides = new Guides(tokenizer, vocabularySize);
    const compiled = await compileWith(compiler, grammarOf(constraint));
    for (let seed = 0; seed < 6; seed++) {
      const guide = await guides.open(constraint, stopIds);
      const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled, [...stopIds]);
      for (let step = 0; step < 60; step++) {
        const expected = idsOf(await matcher.getNextTokenBitmask()).filter((id) => !markIds.includes(id));
        expect(idsOf(guide.mask)).toEqual(expected);
        const tokenId = start[step] ?? pick(expected, seed, step);
        expect(expected).toContain(tokenId);
        matcher.acceptToken(tokenId);
        guide.accept(tokenId);
        await guide.ready;
        if (stopIds.includes(tokenId)) break;
      }
      guide.dispose();
      matcher.dispose();
    }
    compiled.dispose();
    await guides.close();
  },
);

/** Any of them, and often one that does something to a string or begins a call. */
function pick(ids: readonly number[], seed: number, step: number): number {
  const [choice, place] = [uniformAt(seed, 2 * step), uniformAt(seed, 2 * step + 1)];
  const special = ids.filter((id) => /["\\<]/.test(tokens[id]!));
  const from = choice < 0.3 && special.length > 0 ? special : ids;
  return from[Math.floor(place * from.length)]!;
}

function idsOf(mask: Int32Array): number[] {
  return tokens.flatMap((_, id) => (((mask[id >> 5]! >> (id & 31)) & 1) === 1 ? [id] : []));
}

/** What the matcher of a reply is shown, one that takes every token and the mark of strings. In the alphabet of byte-level tokenizers Ã is the first byte of ü. */
async function shownTokens(trigger: string | undefined, ...reply: readonly string[]): Promise<readonly string[]> {
  const shown: string[] = [];
  const matcher: GrammarMatcher = {
    acceptToken: (id) => shown.push(reply[id]!) > 0,
    _acceptString: () => true,
    getNextTokenBitmask: () => Promise.resolve(new Int32Array(1).fill(-1)),
    dispose: () => {},
  };
  const parts = {
    places: { trigger, bounds: [], markIds: [] },
    states: new GrammarStates(),
    lengths: new TokenLengths(reply, reply.length),
    masks: new SharedMasks(),
  };
  const position = new ReplyPosition(matcher, parts, []);
  for (const id of reply.keys()) {
    position.accept(id);
    if (position.mask === undefined) await position.ask();
  }
  return shown;
}

test("tokens between two characters of a string are not shown to the matcher; ends, escapes and parts of characters are", async () => {
  expect(
    await shownTokens(undefined, '{"a":Ġ"', "some", "Ġtext", "\\", "n", "more", "Ã", "¼", "end", '",', "1"),
  ).toEqual([...['{"a":Ġ"', "\\", "n", "Ã", "¼", '",', "1"]]);
});

test("free text is not shown up to what may begin a call, and everything is from there on", async () => {
  expect(await shownTokens("<call>", "Let", "Ġme", "Ġ<", "b>", "see", "<ca", "ll>", '{"x', '"', "rest")).toEqual([
    ...["Ġ<", "b>", "<ca", "ll>", '{"x', '"', "rest"],
  ]);
});

test("a quote in free text begins no string, whatever lengths the arguments of the call have", async () => {
  const parameters = { type: "object", properties: { for: { type: "string", maxLength: 3 } }, required: ["for"] };
  const guides = new Guides(tokenizer, vocabularySize);
  const guide = await guides.open({ kind: "at-most-one-call", tools: [{ name: "look", parameters }] }, stopIds);
  const before = idsOf(guide.mask);
  for (const tokenId of tokenizer.encode('She said "hello there')) {
    guide.accept(tokenId);
    await guide.ready;
  }
  expect(idsOf(guide.mask)).toEqual(before);
  guide.dispose();
  await guides.close();
});

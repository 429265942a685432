import { expect, test } from "vitest";
import type { JsonValue } from "../../flow/prompt.ts";
import { checkLoose, checkStrict, instructions, parseInstructions } from "./check-instructions.ts";

/** Per kind of instruction: arguments, replies that follow it, and replies that do not. */
const table: Record<
  keyof typeof instructions,
  readonly {
    readonly args?: Record<string, JsonValue>;
    readonly good: readonly string[];
    readonly bad: readonly string[];
  }[]
> = {
  "keywords:existence": [
    { args: { keywords: ["cat", "dog"] }, good: ["Cats and DOGS."], bad: ["A cat.", ""] },
    { args: { keywords: ["c++"] }, good: ["I like C++."], bad: ["I like cc."] },
  ],
  "keywords:frequency": [
    { args: { keyword: "go", frequency: 2, relation: "at least" }, good: ["go Going"], bad: ["go", "stop"] },
    { args: { keyword: " go ", frequency: 2, relation: "less than" }, good: ["go", "stop"], bad: ["go, go"] },
  ],
  "keywords:forbidden_words": [
    {
      args: { forbidden_words: ["rock", "über"] },
      good: ["rocket", "ein Überzug"],
      bad: ["A Rock.", "so, über allem"],
    },
  ],
  "keywords:letter_frequency": [
    { args: { letter: "E", let_frequency: 3, let_relation: "at least" }, good: ["eEe"], bad: ["ee"] },
    { args: { letter: "!", let_frequency: 2, let_relation: "less than" }, good: ["so!"], bad: ["so!!"] },
  ],
  "language:response_language": [
    { args: { language: "de" }, good: ["Das ist ein kurzer Text.", "42"], bad: ["This is a short text.", "qwrtz"] },
    { args: { language: "hi" }, good: ["यह एक छोटा पाठ है।"], bad: ["हे एक छोटे वाक्य आहे आणि ते मराठीत आहे."] },
  ],
  "length_constraints:number_sentences": [
    { args: { num_sentences: 3, relation: "less than" }, good: ["One. Two."], bad: ["One. Two? Three!"] },
    { args: { num_sentences: 2, relation: "at least" }, good: ["One! Two."], bad: ["Dr. Who is one."] },
  ],
  "length_constraints:number_paragraphs": [
    { args: { num_paragraphs: 2 }, good: ["a\n***\nb", "***\na\n***\nb"], bad: ["a\n\nb", "a\n***\n***\nb", "a"] },
  ],
  "length_constraints:number_words": [
    { args: { num_words: 3, relation: "at least" }, good: ["it's so"], bad: ["so so"] },
    { args: { num_words: 3, relation: "less than" }, good: ["so so"], bad: ["a-b c"] },
  ],
  "length_constraints:nth_paragraph_first_word": [
    {
      args: { num_paragraphs: 2, nth_paragraph: 2, first_word: "But" },
      good: ['It is.\n\n"But, no."', "It is.\n\nbut no"],
      bad: ["But no.\n\nIt is.", "It is.\n\nButter.", "But no.", "a\n\nbut b\n\nc"],
    },
  ],
  "detectable_content:number_placeholders": [
    {
      args: { num_placeholders: 2 },
      good: ["[name] at [place]", "[] []"],
      bad: ["[name]", "[na\nme] [place]", "[[name]", "name] ["],
    },
  ],
  "detectable_content:postscript": [
    { args: { postscript_marker: "P.S." }, good: ["So.\nP.S. more", "so p. s. more"], bad: ["So.\nPS more"] },
    { args: { postscript_marker: "P.P.S" }, good: ["So.\nP. P.S. more"], bad: ["So.\nP.S. more"] },
    { args: { postscript_marker: "N.B." }, good: ["n.b. more"], bad: ["nxbx"] },
  ],
  "detectable_format:number_bullet_lists": [
    { args: { num_bullets: 2 }, good: ["* a\n* b", "- a\n  - b"], bad: ["* a", "* a\n* b\n* c", "** a\n** b"] },
  ],
  "detectable_format:constrained_response": [{ good: ["Well. My answer is maybe."], bad: ["My answer is perhaps."] }],
  "detectable_format:number_highlighted_sections": [
    { args: { num_highlights: 2 }, good: ["*a* and *b*", "**a** and *b*"], bad: ["*a*", "** **", "*a\nb* *c*"] },
  ],
  "detectable_format:multiple_sections": [
    {
      args: { section_spliter: "Section", num_sections: 2 },
      good: ["Section 1\na\nSection 2\nb"],
      bad: ["Section 1\na", "SECTION 1\na\nSECTION 2\nb"],
    },
  ],
  "detectable_format:json_format": [
    { good: ['{"a": 1}', '```json\n{"a": [1, null]}\n```', "```\n3\n```"], bad: ["{a: 1}", 'So: {"a": 1}'] },
  ],
  "detectable_format:title": [{ good: ["<<so>>\ntext"], bad: ["<so>", "<< >>", "<<so\n>>"] }],
  "combination:two_responses": [
    { good: ["a******b", "******\na\n******\nb"], bad: ["a", "a******a", "a******b******c", "a************b"] },
  ],
  "combination:repeat_prompt": [{ args: { prompt_to_repeat: "Say it." }, good: ["say it. It."], bad: ["It. Say it."] }],
  "startend:end_checker": [
    {
      args: { end_phrase: "That is all." },
      good: ["So. That is ALL.\n", '"So. That is all."'],
      bad: ["That is all. Bye"],
    },
  ],
  "startend:quotation": [{ good: ['"so"', ' "so"\n'], bad: ["so", '"', '"so" he said'] }],
  "change_case:english_capital": [
    { good: ["THIS IS THE WAY, 1 AND 2.", "OK"], bad: ["THIS is THE WAY", "DAS IST EIN TEXT UND NICHT KURZ", "12"] },
  ],
  "change_case:english_lowercase": [
    { good: ["this is the way."], bad: ["This is the way.", "das ist ein text und nicht kurz"] },
  ],
  "change_case:capital_word_frequency": [
    {
      args: { capital_frequency: 2, capital_relation: "at least" },
      good: ["The USA and NATO", "STATE-OF-THE-ART in the U.S."],
      bad: ["The USA", "STATE-OF-THE-ART"],
    },
    { args: { capital_frequency: 2, capital_relation: "less than" }, good: ["The USA"], bad: ["The USA and I"] },
  ],
  "punctuation:no_comma": [{ good: ["a b; c"], bad: ["a, b"] }],
};

const cases = Object.entries(table).flatMap(([id, rows]) =>
  rows.flatMap(({ args = {}, good, bad }) => [
    ...good.map((reply) => ({ id, args, reply, isFollowed: true })),
    ...bad.map((reply) => ({ id, args, reply, isFollowed: false })),
  ]),
);

function rowOf(id: string, args: Record<string, JsonValue>) {
  return parseInstructions({ instruction_id_list: [id], kwargs: [args] });
}

test("there are 25 kinds", () => {
  expect(Object.keys(instructions)).toHaveLength(25);
});

test.each(cases)("$id $args: $reply is followed: $isFollowed", ({ id, args, reply, isFollowed }) => {
  expect(checkStrict(rowOf(id, args), reply)).toEqual([isFollowed]);
});

test("loose forgives a first line, a last line and stars", () => {
  const row = rowOf("startend:quotation", {});
  for (const reply of ['Sure!\n"so"', '"so"\nDone.', 'Sure!\n"so"\nDone.', '**"so"**']) {
    expect(checkStrict(row, reply)).toEqual([false]);
    expect(checkLoose(row, reply)).toEqual([true]);
  }
  expect(checkLoose(row, "so\nso\nso")).toEqual([false]);
});

test("an empty reply follows nothing, not even what forbids", () => {
  const row = rowOf("punctuation:no_comma", {});
  expect(checkStrict(row, " \n")).toEqual([false]);
  expect(checkLoose(row, "")).toEqual([false]);
});

test("a degenerate reply is judged in little time", () => {
  const row = parseInstructions({
    instruction_id_list: Object.keys(table),
    kwargs: Object.values(table).map(([first]) => first?.args ?? {}),
  });
  for (const unit of ["[", "<<", '"', ".", "\n", " ", "*", "* ", "answer ", "('", "a."]) {
    const start = performance.now();
    checkStrict(row, `${unit.repeat(100_000)}?x`);
    expect([unit, performance.now() - start < 2_000]).toEqual([unit, true]);
  }
});

test("an unknown instruction names its nearest", () => {
  expect(() => rowOf("punctuation:no_coma", {})).toThrow(
    '"punctuation:no_coma" is not an ifeval instruction. Nearest: "punctuation:no_comma".',
  );
});

test.each([
  { id: "keywords:existence", args: {}, reason: "keywords" },
  { id: "length_constraints:number_words", args: { num_words: 3, relation: "at most" }, reason: "relation" },
  { id: "language:response_language", args: { language: "xx" }, reason: "language" },
  { id: "punctuation:no_comma", args: { num_words: 3 }, reason: "num_words" },
])("arguments that do not fit are refused, never made up: $id $args", ({ id, args, reason }) => {
  expect(() => rowOf(id, args as Record<string, JsonValue>)).toThrow(reason);
});

test("arguments that are null count as not given", () => {
  expect(checkStrict(rowOf("punctuation:no_comma", { num_words: null, relation: null }), "so")).toEqual([true]);
});

test("ids and arguments must be as many", () => {
  expect(() => parseInstructions({ instruction_id_list: ["punctuation:no_comma"], kwargs: [] })).toThrow(
    "with as many kwargs as ids",
  );
  expect(() => parseInstructions("so")).toThrow('got "so"');
});

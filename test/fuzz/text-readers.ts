/** Everything built in that reads what a model wrote, each as one function of the text. */
import { ReplyReader } from "../../src/chat/reply-reader.ts";
import { StopTextCutter } from "../../src/chat/stop-text-cutter.ts";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { buildEnv } from "../../src/envs/catalog.ts";
import { seedPrompt } from "../../src/envs/seed-prompt.ts";
import type { TextEnv } from "../../src/envs/text-env.ts";
import { openShop } from "../../src/envs/webshop/shop.ts";
import { WebshopEnv, webshopOptions } from "../../src/envs/webshop/webshop.ts";
import type { JsonValue } from "../../src/flow/prompt.ts";
import { buildReward, type RewardChoice } from "../../src/rewards/catalog.ts";
import { extractCode } from "../../src/rewards/code/extract-code.ts";
import { findJson } from "../../src/rewards/json-schema/find-json.ts";
import { compileSchema } from "../../src/rewards/json-schema/validate.ts";
import { rubricQuestion } from "../../src/rewards/judge/questions.ts";
import { detectLanguage } from "../../src/rewards/language/detect-language.ts";
import { EXTRACTION_METHODS, extractAnswer } from "../../src/rewards/math/extract-answer.ts";
import { smallShop } from "../envs/small-shop.ts";
import { never, rewardInput } from "../rewards/reward-input.ts";

export interface TextReader {
  readonly name: string;
  readonly read: (text: string) => unknown;
}

export async function openTextReaders(): Promise<readonly TextReader[]> {
  return [...extractors, ...(await rewardReaders()), ...(await envReaders()), ...streamReaders];
}

const looseSchema = compileSchema({ items: { type: ["string", "array", "object"] }, uniqueItems: true, minLength: 2 });

const extractors: readonly TextReader[] = [
  { name: "code", read: (text) => extractCode(text, "python") },
  ...EXTRACTION_METHODS.map((method) => ({
    name: `answer/${method}`,
    read: (text: string) => extractAnswer(text, [method]),
  })),
  { name: "language", read: detectLanguage },
  { name: "verdict", read: rubricQuestion("", "", "").read },
  {
    name: "json",
    read: (text) => {
      const found = findJson(text);
      return found === undefined ? undefined : looseSchema(found);
    },
  },
];

const ifevalTruth: JsonValue = {
  instruction_id_list: [
    ...["keywords:existence", "keywords:frequency", "keywords:forbidden_words", "keywords:letter_frequency"],
    ...[
      "length_constraints:number_words",
      "length_constraints:number_sentences",
      "length_constraints:number_paragraphs",
    ],
    ...["length_constraints:nth_paragraph_first_word", "detectable_content:number_placeholders"],
    ...[
      "detectable_content:postscript",
      "detectable_format:number_bullet_lists",
      "detectable_format:constrained_response",
    ],
    ...["detectable_format:number_highlighted_sections", "detectable_format:multiple_sections"],
    ...["detectable_format:json_format", "detectable_format:title", "language:response_language"],
    ...["change_case:english_capital", "change_case:english_lowercase", "change_case:capital_word_frequency"],
    ...["combination:two_responses", "combination:repeat_prompt", "startend:end_checker", "startend:quotation"],
    "punctuation:no_comma",
  ],
  kwargs: [
    ...[{ keywords: ["a"] }, { keyword: "a", frequency: 3, relation: "at least" }, { forbidden_words: ["answer"] }],
    ...[
      { letter: "#", let_frequency: 2, let_relation: "at least" },
      { num_words: 3, relation: "at least" },
    ],
    ...[{ num_sentences: 3, relation: "at least" }, { num_paragraphs: 3 }],
    ...[{ num_paragraphs: 2, nth_paragraph: 1, first_word: "answer" }, { num_placeholders: 3 }],
    ...[{ postscript_marker: "P.P.S" }, { num_bullets: 3 }, {}, { num_highlights: 3 }],
    ...[{ section_spliter: "answer", num_sections: 3 }, {}, {}, { language: "de" }, {}, {}],
    ...[{ capital_frequency: 3, capital_relation: "at least" }, {}, { prompt_to_repeat: "answer" }],
    ...[{ end_phrase: "answer" }, {}, {}],
  ],
};

const rewardChoices: readonly (readonly [choice: RewardChoice, truth: JsonValue])[] = [
  [{ type: "choice" }, "B"],
  [{ type: "contains" }, "12"],
  [{ type: "exact", after: "answer" }, "12"],
  [{ type: "exact", lastLine: true }, "12"],
  [{ type: "format", tags: ["think", "answer"] }, null],
  [{ type: "ifeval" }, ifevalTruth],
  [{ type: "length", curve: { shape: "target", target: 10, tolerance: 10 } }, null],
  [{ type: "repetition" }, null],
];

async function rewardReaders(): Promise<readonly TextReader[]> {
  return Promise.all(
    rewardChoices.map(async ([choice, truth], i) => {
      const reward = await buildReward(choice);
      return { name: `${reward.name} ${i}`, read: (text: string) => reward.score(rewardInput(text, truth), never) };
    }),
  );
}

async function envReaders(): Promise<readonly TextReader[]> {
  const shop = await openShop(smallShop, 1);
  const options = webshopOptions.parse({ dataFolder: "unused" });
  const reader = (type: string, makeEnv: () => TextEnv | Promise<TextEnv>): TextReader => ({
    name: type,
    read: async (text) => (await makeEnv()).step({ text, isCut: false }, never),
  });
  const built = ["cart-pole-text", "countdown", "frozen-lake", "tool-use"].map((type) => {
    const env = buildEnv({ type });
    const prompt = { ...(env.makePrompt?.(1) ?? seedPrompt(type, 1)), messages: [{ role: "user", content: "1 + 1?" }] };
    return reader(type, () => env.makeEnv(prompt, 1));
  });
  return [...built, reader("webshop", () => new WebshopEnv(shop, shop.goals[0]!, options))];
}

const byteTokenizer = createTokenizer(byteTokenizerFiles(), "bytes");

/** Readers that get the text in pieces, as a stream brings it. */
const streamReaders: readonly TextReader[] = [
  {
    name: "reply in pieces",
    read: (text) => {
      const options = { tokenizer: byteTokenizer, stopIds: [], stopStrings: ["</stop>"], newCallId: () => "call" };
      const reader = new ReplyReader(options);
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; at += 64) reader.push(bytes.subarray(at, at + 64));
      return reader.end();
    },
  },
  {
    name: "stop text in pieces",
    read: (text) => {
      const cutter = new StopTextCutter(["</answer>", "x".repeat(64)]);
      for (let at = 0; at < text.length; at += 64) cutter.push(text.slice(at, at + 64));
      return cutter.end();
    },
  },
];

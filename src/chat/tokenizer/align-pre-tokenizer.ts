/**
 * Makes `@huggingface/tokenizers` cut text as the Rust `tokenizers` library does.
 *
 * In: the `pre_tokenizer` of a tokenizer.json. Out: settings that say the same in terms which the library gets right.
 * The library differs from Rust in six types of step: its own regular expressions know only ASCII digits and words and
 * another set of spaces, and it takes every `behavior` of a split for `Isolated`. Its `Split` by regular expression is
 * exact, so each of the six is written as one. `fixtures/tokenizer/reference` holds what Rust gives.
 */

import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { type PipelineStep, pipelineStep, readStep, type SearchPattern, searchPattern } from "./pipeline-step.ts";

/** Rewrites a pre-tokenizer and the steps within it. */
export function alignPreTokenizer(step: PipelineStep): PipelineStep {
  switch (step.type) {
    case "Sequence":
      return sequence(readStep(step, sequenceSettings).pretokenizers.map(alignPreTokenizer));
    case "ByteLevel":
      return alignByteLevel(step);
    case "Digits":
      return isolate(readStep(step, digitsSettings).individual_digits ? "\\p{N}" : "\\p{N}+");
    case "Punctuation":
      return alignSplit({ Regex: PUNCTUATION }, readStep(step, punctuationSettings).behavior);
    case "Whitespace":
      return { type: "Split", pattern: { Regex: `[${WORD}]+|[^${WORD}\\s]+` }, behavior: "Removed", invert: true };
    case "WhitespaceSplit":
      return { type: "Split", pattern: { Regex: "\\s" }, behavior: "Removed", invert: false };
    case "Split":
      return alignSplitStep(step);
    case "Metaspace":
      return alignMetaspace(step);
    default:
      return step;
  }
}

/** The library's byte-level expression takes U+FEFF for a space and U+0085 for none; Rust has it the other way round. */
function alignByteLevel(step: PipelineStep): PipelineStep {
  const { add_prefix_space, use_regex } = readStep(step, byteLevelSettings);
  if (!use_regex) return step;
  const prefix = { type: "Replace", pattern: { Regex: "\\A[^ ]" }, content: " $&" };
  return sequence([
    ...(add_prefix_space ? [prefix] : []),
    isolate(GPT2_WORDS),
    { type: "ByteLevel", add_prefix_space: false, use_regex: false },
  ]);
}

/** Only `Removed` looks at which side of an inverted split matched; `Isolated` keeps both sides anyway. */
function alignSplitStep(step: PipelineStep): PipelineStep {
  const { pattern, behavior, invert } = readStep(step, splitSettings);
  if (!invert) return alignSplit(pattern, behavior);
  if (behavior === "Removed") return step;
  if (behavior === "Isolated") return alignSplit(pattern, behavior);
  throw new RerollError(
    "TOKENIZER_UNSUPPORTED",
    `tokenizer.json has an inverted Split with behavior "${behavior}". An inverted Split works here with Removed or Isolated.`,
    { step },
  );
}

function alignSplit(pattern: SearchPattern, behavior: SplitBehavior): PipelineStep {
  const match = `(?:${"Regex" in pattern ? pattern.Regex : escapeRegex(pattern.String)})`;
  const gap = `(?:(?!${match})[\\s\\S])`;
  switch (behavior) {
    case "Removed":
      return { type: "Split", pattern: { Regex: match }, behavior, invert: false };
    case "Isolated":
      return isolate(match);
    case "Contiguous":
      return isolate(`${match}+`);
    case "MergedWithPrevious":
      return isolate(`${gap}*${match}|${gap}+`);
    case "MergedWithNext":
      return isolate(`${match}${gap}*|${gap}+`);
  }
}

/** Files from before `prepend_scheme` say `add_prefix_space`. The library also leaves out the cut before each word. */
function alignMetaspace(step: PipelineStep): PipelineStep {
  const { replacement, prepend_scheme, add_prefix_space, split } = readStep(step, metaspaceSettings);
  const prefixed = {
    type: "Metaspace",
    replacement,
    prepend_scheme: add_prefix_space === false ? "never" : prepend_scheme,
  };
  return split ? sequence([prefixed, alignSplit({ String: replacement }, "MergedWithNext")]) : prefixed;
}

function sequence(pretokenizers: readonly PipelineStep[]): PipelineStep {
  return { type: "Sequence", pretokenizers };
}

function isolate(regex: string): PipelineStep {
  return { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
}

function escapeRegex(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** The expression of the GPT-2 release. */
const GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** Word characters as Rust's regex crate has them, which differ from those of Oniguruma. */
const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";

/** Unicode punctuation, and the ASCII characters that Unicode counts as symbols. */
const PUNCTUATION = "[\\p{P}\\x21-\\x2F\\x3A-\\x40\\x5B-\\x60\\x7B-\\x7E]";

const splitBehavior = z.enum(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]);
type SplitBehavior = z.infer<typeof splitBehavior>;

const sequenceSettings = z.object({ pretokenizers: z.array(pipelineStep) });
const byteLevelSettings = z.object({
  add_prefix_space: z.boolean().default(true),
  use_regex: z.boolean().default(true),
});
const digitsSettings = z.object({ individual_digits: z.boolean().default(false) });
const punctuationSettings = z.object({ behavior: splitBehavior.default("Isolated") });
const splitSettings = z.object({ pattern: searchPattern, behavior: splitBehavior, invert: z.boolean().default(false) });
const metaspaceSettings = z.object({
  replacement: z.string().min(1),
  prepend_scheme: z.enum(["always", "first", "never"]).default("always"),
  add_prefix_space: z.boolean().optional(),
  split: z.boolean().default(true),
});

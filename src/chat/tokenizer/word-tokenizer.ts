/**
 * A tokenizer that knows whole words, for models that learn a small language from scratch.
 *
 * In: the words. Out: the files of a Hugging Face tokenizer, one token per word, so that a model trained with it loads
 * anywhere. Words are apart by spaces; a line break may be a word of its own.
 */
import { RerollError } from "../../errors/reroll-error.ts";

export interface WordTokenizerOptions {
  /** The vocabulary, in the order of the ids, which start at 2. */
  readonly words: readonly string[];
  /** Words that end a reply; they are part of it. */
  readonly endWords: readonly string[];
  /** The chat template. Default: the contents of the messages, one after another. */
  readonly chatTemplate?: string;
}

const UNKNOWN = "<unk>";
const PAD = "<pad>";
const PLAIN_TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}";

/** The files by name; `createTokenizer` reads them. */
export function wordTokenizerFiles({
  words,
  endWords,
  chatTemplate = PLAIN_TEMPLATE,
}: WordTokenizerOptions): ReadonlyMap<string, Uint8Array> {
  const vocabulary = [PAD, UNKNOWN, ...words];
  const wrong = words.find((word) => word === "" || (word !== "\n" && /\s/.test(word)));
  const twice = vocabulary.find((word, index) => vocabulary.indexOf(word) !== index);
  const unknownEnd = endWords.find((word) => !words.includes(word));
  if (wrong !== undefined) throw invalid(`${JSON.stringify(wrong)} is empty or holds spaces`);
  if (twice !== undefined) throw invalid(`${JSON.stringify(twice)} is there twice`);
  if (unknownEnd !== undefined) throw invalid(`the end word ${JSON.stringify(unknownEnd)} is not among them`);
  const special = (content: string, id: number) => ({
    ...{ id, content, special: true, normalized: false, single_word: false, lstrip: false, rstrip: false },
  });
  const json = {
    version: "1.0",
    added_tokens: [special(PAD, 0), special(UNKNOWN, 1)],
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { String: "\n" }, behavior: "Isolated", invert: false },
        { type: "Split", pattern: { String: " " }, behavior: "Removed", invert: false },
      ],
    },
    post_processor: null,
    decoder: null,
    model: {
      type: "WordPiece",
      unk_token: UNKNOWN,
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(vocabulary.map((word, id) => [word, id])),
    },
  };
  const config = { tokenizer_class: "PreTrainedTokenizerFast", unk_token: UNKNOWN, pad_token: PAD };
  const generation = { eos_token_id: endWords.map((word) => vocabulary.indexOf(word)), pad_token_id: 0 };
  const encode = (value: unknown) => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);
  return new Map([
    ["tokenizer.json", encode(json)],
    ["tokenizer_config.json", encode(config)],
    ["generation_config.json", encode(generation)],
    ["chat_template.jinja", new TextEncoder().encode(chatTemplate)],
  ]);
}

function invalid(reason: string): RerollError {
  return new RerollError("INVALID_ARGUMENT", `The words of a word tokenizer cannot be used: ${reason}.`);
}

/**
 * The tokenizer in a GGUF file as the files that it has on Hugging Face.
 *
 * In: the metadata of the file. Out: tokenizer.json and what belongs beside it, so that a GGUF file is loaded like a folder and exported
 * as one. Vocabularies of the GPT-2 kind (merges, with a named way to cut text) and of sentencepiece's kind (scores) are read; others
 * are refused, since other ids would be wrong ids.
 */
import { RerollError } from "../../../errors/reroll-error.ts";
import type { GgufHeader } from "../../../models/formats/gguf/gguf-header.ts";
import { GgufSettings } from "../../../models/formats/gguf/gguf-settings.ts";
import { preTokenizers } from "./pre-tokenizers.ts";
import { scoreMerges } from "./score-merges.ts";

/** The files by name; `createTokenizer` reads them. */
export function ggufTokenizerFiles(header: GgufHeader, fileName: string): ReadonlyMap<string, Uint8Array> {
  const settings = new GgufSettings(header, fileName);
  const vocabulary = readVocabulary(settings);
  const kind = settings.text("tokenizer.ggml.model");
  const json =
    kind === "gpt2"
      ? byteLevelJson(settings, vocabulary)
      : kind === "llama"
        ? sentencePieceJson(settings, vocabulary)
        : undefined;
  if (json === undefined) throw unsupported(fileName, `a tokenizer of kind "${kind}"`, "gpt2 and llama");
  const encode = (text: string) => new TextEncoder().encode(text);
  const template = settings.optionalText("tokenizer.chat_template");
  return new Map([
    ["tokenizer.json", encode(JSON.stringify(json))],
    ["tokenizer_config.json", encode(`${JSON.stringify(tokenizerConfig(settings, vocabulary), null, 2)}\n`)],
    ["generation_config.json", encode(`${JSON.stringify(generationConfig(settings), null, 2)}\n`)],
    ...(template === undefined ? [] : ([["chat_template.jinja", encode(template)]] as const)),
  ]);
}

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: ArrayLike<number>;
}

/** What a token is, as ggml numbers it. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;

function readVocabulary(settings: GgufSettings): Vocabulary {
  const tokens = settings.texts("tokenizer.ggml.tokens");
  const types = settings.numbers("tokenizer.ggml.token_type") ?? new Uint8Array(tokens.length).fill(1);
  if (types.length === tokens.length) return { tokens, types };
  throw settings.invalid(`it has ${tokens.length} tokens and the types of ${types.length}`);
}

function byteLevelJson(settings: GgufSettings, vocabulary: Vocabulary): object {
  const name = settings.optionalText("tokenizer.ggml.pre") ?? "default";
  const cut = preTokenizers.get(name);
  if (cut === undefined) {
    throw unsupported(
      settings.fileName,
      `text that is cut by the rules of "${name}"`,
      [...preTokenizers.keys()].join(", "),
    );
  }
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
  const splits = cut.patterns.map((Regex) => ({
    type: "Split",
    pattern: { Regex },
    behavior: "Isolated",
    invert: false,
  }));
  return {
    ...tokenizerJson(settings, vocabulary),
    normalizer: cut.normalizer === undefined ? null : { type: cut.normalizer },
    pre_tokenizer: { type: "Sequence", pretokenizers: [...splits, byteLevel] },
    decoder: byteLevel,
    model: {
      ...bpe,
      ignore_merges: cut.ignoresMerges === true,
      vocab: vocabOf(vocabulary),
      merges: settings.texts("tokenizer.ggml.merges").map((merge) => {
        // A piece may hold a space of its own only where vocabularies are not byte-level.
        const space = merge.indexOf(" ", 1);
        return [merge.slice(0, space), merge.slice(space + 1)];
      }),
    },
  };
}

/** The mark that sentencepiece puts where a word starts. */
const WORD_START = "\u2581";

function sentencePieceJson(settings: GgufSettings, vocabulary: Vocabulary): object {
  const scores = settings.numbers("tokenizer.ggml.scores");
  if (scores === undefined || scores.length !== vocabulary.tokens.length)
    throw settings.invalid("its tokens have no scores to be joined by");
  const hasPrefix = settings.optionalFlag("tokenizer.ggml.add_space_prefix") ?? true;
  const unknown = settings.optionalCount("tokenizer.ggml.unknown_token_id") ?? 0;
  return {
    ...tokenizerJson(settings, vocabulary),
    normalizer: null,
    pre_tokenizer: {
      type: "Metaspace",
      replacement: WORD_START,
      prepend_scheme: hasPrefix ? "first" : "never",
      split: false,
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: WORD_START }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(hasPrefix ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      ...bpe,
      unk_token: vocabulary.tokens[unknown] ?? null,
      fuse_unk: true,
      byte_fallback: true,
      vocab: vocabOf(vocabulary),
      merges: scoreMerges(vocabulary.tokens, scores),
    },
  };
}

const bpe = {
  type: "BPE",
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: false,
  ignore_merges: false,
};

function vocabOf({ tokens }: Vocabulary): Readonly<Record<string, number>> {
  const vocab: Record<string, number> = Object.create(null);
  for (const [id, token] of tokens.entries()) vocab[token] ??= id;
  return vocab;
}

/** What both kinds share: the tokens that text is searched for, and the one that begins a text. */
function tokenizerJson(settings: GgufSettings, { tokens, types }: Vocabulary): object {
  const added = tokens.flatMap((content, id) => {
    const type = types[id];
    if (type !== CONTROL && type !== USER_DEFINED && type !== UNKNOWN) return [];
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return [{ id, content, ...flags, special: type !== USER_DEFINED }];
  });
  const start = settings.optionalFlag("tokenizer.ggml.add_bos_token")
    ? settings.optionalCount("tokenizer.ggml.bos_token_id")
    : undefined;
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    post_processor: start === undefined ? null : startProcessor(start, tokens[start] ?? ""),
  };
}

function startProcessor(id: number, token: string): object {
  const start = { SpecialToken: { id: token, type_id: 0 } };
  const text = (name: string, type_id: number) => ({ Sequence: { id: name, type_id } });
  return {
    type: "TemplateProcessing",
    single: [start, text("A", 0)],
    pair: [start, text("A", 0), start, text("B", 1)],
    special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
  };
}

function tokenizerConfig(settings: GgufSettings, { tokens }: Vocabulary): object {
  const named = (key: string) => {
    const id = settings.optionalCount(`tokenizer.ggml.${key}_token_id`);
    return id === undefined ? undefined : tokens[id];
  };
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    bos_token: named("bos"),
    eos_token: named("eos"),
    pad_token: named("padding"),
    unk_token: named("unknown"),
    clean_up_tokenization_spaces: false,
  };
}

/** Sampling stops at the end of a text, of a turn and of a message to a tool. */
function generationConfig(settings: GgufSettings): object {
  const ends = ["eot", "eos", "eom"].flatMap((key) => settings.optionalCount(`tokenizer.ggml.${key}_token_id`) ?? []);
  const bos_token_id = settings.optionalCount("tokenizer.ggml.bos_token_id");
  return { ...(bos_token_id !== undefined && { bos_token_id }), eos_token_id: [...new Set(ends)] };
}

function unsupported(fileName: string, what: string, allowed: string): RerollError {
  return new RerollError(
    "TOKENIZER_UNSUPPORTED",
    `${fileName} has ${what}. Supported: ${allowed}. Give the model's own tokenizer with --tokenizer, or use its safetensors release.`,
    { fileName },
  );
}

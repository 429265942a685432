/**
 * A tokenizer that needs no training: one id for each byte, and four special tokens. 260 ids in all.
 *
 * For small models from scratch that read free text, and for tests. Conversations are written as ChatML.
 */
import { byteLevelAlphabet } from "./decoding/byte-level-stage.ts";

/** The files by name; `createTokenizer` reads them. */
export function byteTokenizerFiles(): ReadonlyMap<string, Uint8Array> {
  const encode = (text: string) => new TextEncoder().encode(text);
  const json = (value: unknown) => encode(`${JSON.stringify(value, null, 2)}\n`);
  return new Map([
    ["tokenizer.json", json(tokenizerJson)],
    ["tokenizer_config.json", json(tokenizerConfig)],
    ["generation_config.json", json({ eos_token_id: [258, 256] })],
    ["chat_template.jinja", encode(CHAT_TEMPLATE)],
  ]);
}

const SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"];

/** The id of a byte is the byte; special tokens follow. There are no merges. */
const tokenizerJson = {
  version: "1.0",
  truncation: null,
  padding: null,
  added_tokens: SPECIAL_TOKENS.map((content, index) => ({
    id: 256 + index,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: null,
  pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
  post_processor: null,
  decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
  model: {
    type: "BPE",
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab: Object.fromEntries(byteLevelAlphabet().map((character, byte) => [character, byte])),
    merges: [],
  },
};

const tokenizerConfig = {
  tokenizer_class: "PreTrainedTokenizerFast",
  bos_token: null,
  eos_token: "<|im_end|>",
  pad_token: "<|pad|>",
  unk_token: null,
  additional_special_tokens: ["<|endoftext|>", "<|im_start|>"],
  clean_up_tokenization_spaces: false,
  model_max_length: 4096,
};

const CHAT_TEMPLATE = `{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'Tools:' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant', 'tool'] %}
        {{- raise_exception('Unknown role ' + message.role + '.') }}
    {%- endif %}
    {%- if not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>' + (call.function | tojson) + '</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
`;

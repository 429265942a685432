/**
 * How text is cut before merges apply, by the names that GGUF files use. Each is what the tokenizer.json of the model it is named after
 * does: one or more splits, one after the other.
 */

interface TextCut {
  readonly patterns: readonly string[];
  readonly normalizer?: "NFC";
  /** Whether a word that is a token of its own is taken as it is, however its merges go. */
  readonly ignoresMerges?: boolean;
}

const ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const TAIL = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const UPPER = "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}";
const LOWER = "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}";

const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const cl100k = (digits: string) =>
  `${ENDINGS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${TAIL}`;
const o200k = (endings: string, digits: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?[${UPPER}]*[${LOWER}]+${endings}|[^\\r\\n\\p{L}\\p{N}]?[${UPPER}]+[${LOWER}]*${endings}|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${TAIL}`;

const plain: TextCut = { patterns: [gpt2] };
/** Every digit stands alone. */
const digits: TextCut = { patterns: ["\\p{N}", gpt2] };
const llama3: TextCut = { patterns: [cl100k("\\p{N}{1,3}")], ignoresMerges: true };
const qwen2: TextCut = { patterns: [cl100k("\\p{N}")], normalizer: "NFC" };

/** The cuts by name. */
export const preTokenizers: ReadonlyMap<string, TextCut> = new Map<string, TextCut>([
  ...["gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "gigachat", "exaone4"].map((name) => [name, plain] as const),
  ...["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"].map(
    (name) => [name, digits] as const,
  ),
  ...["llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"].map((name) => [name, llama3] as const),
  ...["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"].map((name) => [name, { patterns: llama3.patterns }] as const),
  ...["qwen2", "deepseek-r1-qwen", "megrez"].map((name) => [name, qwen2] as const),
  [
    "qwen35",
    {
      patterns: [
        `${ENDINGS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${TAIL}`,
      ],
      normalizer: "NFC",
    },
  ],
  ["stablelm2", { patterns: qwen2.patterns }],
  ["tekken", { patterns: [o200k("", "\\p{N}")], ignoresMerges: true }],
  ...["gpt-4o", "llama4"].map((name) => [name, { patterns: [o200k(`${ENDINGS}?`, "\\p{N}{1,3}")] }] as const),
]);

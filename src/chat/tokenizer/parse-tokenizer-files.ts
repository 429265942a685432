/**
 * The edge where the JSON files of a tokenizer become typed values.
 *
 * In: the bytes of the files. Out: their parsed content, or an error that names the file and the key.
 */

import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { pipelineStep } from "./pipeline-step.ts";

/** The content of a tokenizer's files. */
interface ParsedTokenizer {
  readonly json: TokenizerJson;
  readonly config: TokenizerConfig;
  /** Jinja sources by name. A tokenizer with one template has it under "default". */
  readonly chatTemplates: ReadonlyMap<string, string>;
  /** `eos_token_id` of generation_config.json. */
  readonly generationEosIds: readonly number[];
}

/** @param name where the files come from, for messages */
export function parseTokenizerFiles(files: ReadonlyMap<string, Uint8Array>, name: string): ParsedTokenizer {
  const read = <Content>(file: string, content: z.ZodType<Content>): Content | undefined => {
    const bytes = files.get(file);
    return bytes === undefined ? undefined : parseJsonFile(bytes, content, `${name}/${file}`);
  };
  const json = read("tokenizer.json", tokenizerJson);
  const config = read("tokenizer_config.json", tokenizerConfig);
  if (json === undefined || config === undefined) throw missingFile(files, name);
  const specialTokens = read("special_tokens_map.json", namedTokens) ?? {};
  const generation = read("generation_config.json", generationConfig);
  return {
    json,
    config: { ...specialTokens, ...withoutNulls(config) },
    chatTemplates: collectChatTemplates(files, config),
    generationEosIds: [generation?.eos_token_id ?? []].flat(),
  };
}

function parseJsonFile<Content>(bytes: Uint8Array, content: z.ZodType<Content>, path: string): Content {
  const result = content.safeParse(parseJson(new TextDecoder().decode(bytes), path));
  if (result.success) return result.data;
  throw new RerollError("TOKENIZER_BROKEN", `${path} is not as expected: ${z.prettifyError(result.error)}.`, { path });
}

function parseJson(text: string, path: string): unknown {
  if (text.startsWith("version https://git-lfs")) {
    throw new RerollError(
      "TOKENIZER_BROKEN",
      `${path} is a Git LFS pointer and not the file itself. Run "git lfs pull" in its folder.`,
      { path },
    );
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RerollError("TOKENIZER_BROKEN", `${path} is not JSON: ${String(cause)}.`, { path }, { cause });
  }
}

function missingFile(files: ReadonlyMap<string, Uint8Array>, name: string): RerollError {
  const file = files.has("tokenizer.json") ? "tokenizer_config.json" : "tokenizer.json";
  const found = [...files.keys()].join(", ") || "no tokenizer file";
  return new RerollError(
    "TOKENIZER_MISSING",
    `${name} has no ${file}: found ${found}. A tokenizer needs tokenizer.json and tokenizer_config.json; where only tokenizer.model or vocab.json exists, load it in transformers and call save_pretrained.`,
    { name, found: [...files.keys()] },
  );
}

/** A template file wins over the config, as in transformers. */
function collectChatTemplates(
  files: ReadonlyMap<string, Uint8Array>,
  { chat_template }: TokenizerConfig,
): ReadonlyMap<string, string> {
  const templates = new Map<string, string>();
  if (typeof chat_template === "string") templates.set("default", chat_template);
  else for (const { name, template } of chat_template ?? []) templates.set(name, template);
  for (const [file, bytes] of files) {
    const name = file === "chat_template.jinja" ? "default" : TEMPLATE_FILE.exec(file)?.[1];
    if (name !== undefined) templates.set(name, new TextDecoder().decode(bytes));
  }
  return templates;
}

const TEMPLATE_FILE = /^additional_chat_templates\/(.+)\.jinja$/;

/** A `null` in tokenizer_config.json means "not set", so it must not hide what special_tokens_map.json says. */
function withoutNulls(config: TokenizerConfig): TokenizerConfig {
  return tokenizerConfig.parse(Object.fromEntries(Object.entries(config).filter(([, value]) => value !== null)));
}

const namedToken = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish();
const tokenFlags = {
  content: z.string(),
  special: z.boolean().default(false),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().optional(),
};
const addedToken = z.looseObject({ id: z.int().min(0), ...tokenFlags });

const tokenizerJson = z.looseObject({
  added_tokens: z.array(addedToken).default([]),
  normalizer: pipelineStep.nullable().default(null),
  pre_tokenizer: pipelineStep.nullable().default(null),
  post_processor: pipelineStep.nullable().default(null),
  decoder: pipelineStep.nullable().default(null),
  // The vocabulary is left as it is: checking each of its entries would take longer than loading them.
  model: z.looseObject({ vocab: z.unknown() }),
});

const namedTokens = z.looseObject({
  bos_token: namedToken,
  eos_token: namedToken,
  pad_token: namedToken,
  unk_token: namedToken,
  additional_special_tokens: z.array(namedToken).nullish(),
});

const tokenizerConfig = namedTokens.extend({
  tokenizer_class: z.string().nullish(),
  add_prefix_space: z.boolean().nullish(),
  legacy: z.boolean().nullish(),
  added_tokens_decoder: z.record(z.string(), z.looseObject(tokenFlags)).nullish(),
  chat_template: z.union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))]).nullish(),
});

const generationConfig = z.looseObject({ eos_token_id: z.union([z.int(), z.array(z.int())]).nullish() });

export type AddedToken = z.infer<typeof addedToken>;
export type NamedToken = z.infer<typeof namedToken>;
export type TokenizerJson = z.infer<typeof tokenizerJson>;
export type TokenizerConfig = z.infer<typeof tokenizerConfig>;

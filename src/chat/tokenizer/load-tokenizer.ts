/** The way from a model folder to a tokenizer. */

import { readTokenizerFiles } from "./read-tokenizer-files.ts";
import { createTokenizer, type Tokenizer } from "./tokenizer.ts";

/**
 * Loads the tokenizer of a model folder in Hugging Face layout. Needs tokenizer.json and tokenizer_config.json; takes
 * special_tokens_map.json, chat_template.jinja and generation_config.json into account where they are.
 */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  return createTokenizer(await readTokenizerFiles(folder), folder);
}

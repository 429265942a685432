/** The way from a model to its tokenizer. */
import { basename } from "node:path";
import { openGguf } from "../../models/formats/gguf/gguf-file.ts";
import { ggufTokenizerFiles } from "./gguf/gguf-tokenizer-files.ts";
import { readTokenizerFiles } from "./read-tokenizer-files.ts";
import { createTokenizer, type Tokenizer } from "./tokenizer.ts";

/**
 * Loads the tokenizer of a .gguf file, or of a model folder in Hugging Face layout. A folder needs tokenizer.json and tokenizer_config.json; takes
 * special_tokens_map.json, chat_template.jinja and generation_config.json into account where they are.
 */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  const files = path.endsWith(".gguf")
    ? ggufTokenizerFiles(openGguf(path).header, basename(path))
    : await readTokenizerFiles(path);
  return createTokenizer(files, path);
}

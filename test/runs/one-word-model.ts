/** A model that says whole replies: each is one token, which it draws by itself. */
import { createTokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { wordTokenizerFiles } from "../../src/chat/tokenizer/word-tokenizer.ts";
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";

/** Writes a model of fresh weights that says one of the replies with each token, and reads "so". Out: its folder. */
export function writeOneWordModel(folder: string, replies: readonly string[]): string {
  // A tokenizer of words has none with spaces, so the replies take the places of others.
  const names = replies.map((_, place) => `reply-${place}`);
  const files = new Map(wordTokenizerFiles({ words: ["so", ...names], endWords: [] }));
  const json = JSON.parse(new TextDecoder().decode(files.get("tokenizer.json")));
  const vocab = Object.entries(json.model.vocab).map(([word, id]) => [replies[names.indexOf(word)] ?? word, id]);
  json.model.vocab = Object.fromEntries(vocab);
  files.set("tokenizer.json", new TextEncoder().encode(JSON.stringify(json)));
  const model = createPreset("nano", createTokenizer(files, "model").vocabularySize, 1);
  saveCausalLm(model, folder, { files });
  model.dispose();
  return folder;
}

/** What `import ... from "reroll/models"` gives: language models, their files and adapters, tokenizers and chat templates. */

export { type ChatOptions, encodeChat, renderChat } from "../chat/template/chat-template.ts";
export { byteTokenizerFiles } from "../chat/tokenizer/byte-tokenizer.ts";
export { type DecodeOptions, IncrementalDecoder } from "../chat/tokenizer/incremental-decoder.ts";
export { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
export { createTokenizer, type EncodeOptions, type Tokenizer } from "../chat/tokenizer/tokenizer.ts";
export { type WordTokenizerOptions, wordTokenizerFiles } from "../chat/tokenizer/word-tokenizer.ts";
export type { ChatMessage, ChatTool, ChatToolCall } from "../flow/chat-message.ts";
export { CausalLm } from "./causal-lm/causal-lm.ts";
export { type CausalLmConfig, parseConfig, toHuggingFaceConfig } from "./causal-lm/config.ts";
export { type Family, familyNames } from "./causal-lm/families/table.ts";
export { type GreedyOptions, greedy } from "./causal-lm/greedy.ts";
export { KvCache } from "./causal-lm/kv-cache.ts";
export { type LoadOptions, loadCausalLm } from "./causal-lm/load-causal-lm.ts";
export { addLora, type LoraOptions, mergeLora, removeLora, withoutLora } from "./causal-lm/lora.ts";
export { type LoadLoraOptions, loadLora, type SaveLoraOptions, saveLora } from "./causal-lm/lora-files.ts";
export { createPreset, type PresetName, presetConfig } from "./causal-lm/presets.ts";
export { type SaveOptions, saveCausalLm } from "./causal-lm/save-causal-lm.ts";
export { packedLayout, paddedLayout, type TokenLayout } from "./causal-lm/token-layout.ts";
export {
  type TokenLogprobOptions,
  type TokenLogprobs,
  tokenLogprobs,
  weightedCrossEntropy,
} from "./causal-lm/token-logprobs.ts";
export { loadValueHead, saveValueHead, ValueHead, type ValueHeadOptions } from "./causal-lm/value-head.ts";
export { type NamedWeight, namedWeights } from "./causal-lm/weight-names.ts";

/** What `import ... from "reroll"` gives: tensors, modules, optimisers, language models, and `algorithms`. */

export * as algorithms from "./algorithms/index.ts";
export { invariant, RerollError } from "./errors/reroll-error.ts";
export type { Engine, EngineCounters, EngineStatus } from "./generation/engine.ts";
export type {
  Finish,
  Generate,
  GenerateRequest,
  Generation,
  SampledTokens,
  Sampling,
} from "./generation/generate.ts";
export type { EngineOptions } from "./generation/local/engine-options.ts";
export { LocalEngine } from "./generation/local/local-engine.ts";
export { startThreadedEngine, type ThreadedEngine } from "./generation/local/threaded-engine.ts";
export { CausalLm } from "./models/causal-lm/causal-lm.ts";
export { type CausalLmConfig, families, parseConfig, toHuggingFaceConfig } from "./models/causal-lm/config.ts";
export { type GreedyOptions, greedy } from "./models/causal-lm/greedy.ts";
export { KvCache } from "./models/causal-lm/kv-cache.ts";
export { type LoadOptions, loadCausalLm } from "./models/causal-lm/load-causal-lm.ts";
export { addLora, mergeLora, removeLora, withoutLora } from "./models/causal-lm/lora.ts";
export { loadLora, saveLora } from "./models/causal-lm/lora-files.ts";
export { createPreset, type PresetName, presetConfig } from "./models/causal-lm/presets.ts";
export { type SaveOptions, saveCausalLm } from "./models/causal-lm/save-causal-lm.ts";
export { packedLayout, paddedLayout, type TokenLayout } from "./models/causal-lm/token-layout.ts";
export { tokenLogprobs, weightedCrossEntropy } from "./models/causal-lm/token-logprobs.ts";
export { loadValueHead, saveValueHead, ValueHead } from "./models/causal-lm/value-head.ts";
export { type NamedWeight, namedWeights } from "./models/causal-lm/weight-names.ts";
export { encodeChat, renderChat } from "./models/tokenizer/chat-template.ts";
export { IncrementalDecoder } from "./models/tokenizer/incremental-decoder.ts";
export { loadTokenizer } from "./models/tokenizer/load-tokenizer.ts";
export { createTokenizer, type Tokenizer } from "./models/tokenizer/tokenizer.ts";
export * from "./torch/index.ts";

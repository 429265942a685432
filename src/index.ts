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
  TokenLogprob,
  Usage,
} from "./generation/generate.ts";
export { copyWeights } from "./generation/local/copy-weights.ts";
export type { EngineSource } from "./generation/local/engine-messages.ts";
export type { EngineOptions } from "./generation/local/engine-options.ts";
export { LocalEngine } from "./generation/local/local-engine.ts";
export { startThreadedEngine, type ThreadedEngine } from "./generation/local/threaded-engine.ts";
export type { CapabilityName } from "./generation/remote/capabilities.ts";
export { connectRemote, type RemoteEngine, type RemoteOptions } from "./generation/remote/connect-remote.ts";
export type { RemoteKind } from "./generation/remote/dialect.ts";
export { createServer, type GenerationServer } from "./generation/server/create-server.ts";
export type { ListenAddress } from "./generation/server/listen-address.ts";
export type { ServerOptions, ServerParts } from "./generation/server/server-parts.ts";
export type {
  FinishedSession,
  SessionEnd,
  SessionRecord,
  SessionSample,
  SessionTurn,
} from "./generation/server/session-record.ts";
export type { SessionLimits, Sessions } from "./generation/server/sessions.ts";
export { CausalLm } from "./models/causal-lm/causal-lm.ts";
export {
  type CausalLmConfig,
  type Family,
  families,
  parseConfig,
  toHuggingFaceConfig,
} from "./models/causal-lm/config.ts";
export { type GreedyOptions, greedy } from "./models/causal-lm/greedy.ts";
export { KvCache } from "./models/causal-lm/kv-cache.ts";
export { type LoadOptions, loadCausalLm } from "./models/causal-lm/load-causal-lm.ts";
export { addLora, type LoraOptions, mergeLora, removeLora, withoutLora } from "./models/causal-lm/lora.ts";
export { type LoadLoraOptions, loadLora, type SaveLoraOptions, saveLora } from "./models/causal-lm/lora-files.ts";
export { createPreset, type PresetName, presetConfig } from "./models/causal-lm/presets.ts";
export { type SaveOptions, saveCausalLm } from "./models/causal-lm/save-causal-lm.ts";
export { packedLayout, paddedLayout, type TokenLayout } from "./models/causal-lm/token-layout.ts";
export {
  type TokenLogprobOptions,
  type TokenLogprobs,
  tokenLogprobs,
  weightedCrossEntropy,
} from "./models/causal-lm/token-logprobs.ts";
export { loadValueHead, saveValueHead, ValueHead, type ValueHeadOptions } from "./models/causal-lm/value-head.ts";
export { type NamedWeight, namedWeights } from "./models/causal-lm/weight-names.ts";
export type { ChatMessage, ChatTool, ChatToolCall } from "./models/tokenizer/chat-message.ts";
export { type ChatOptions, encodeChat, renderChat } from "./models/tokenizer/chat-template.ts";
export { type DecodeOptions, IncrementalDecoder } from "./models/tokenizer/incremental-decoder.ts";
export { loadTokenizer } from "./models/tokenizer/load-tokenizer.ts";
export { createTokenizer, type EncodeOptions, type Tokenizer } from "./models/tokenizer/tokenizer.ts";
export * from "./torch/index.ts";

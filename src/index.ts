/**
 * What `import ... from "reroll"` gives: runs, and every part that a run is made of, down to tensors.
 *
 * `algorithms` is a namespace of its own: docs/reference/algorithms.md.
 */

export * as algorithms from "./algorithms/index.ts";
export { type ChatOptions, encodeChat, renderChat } from "./chat/template/chat-template.ts";
export { byteTokenizerFiles } from "./chat/tokenizer/byte-tokenizer.ts";
export { type DecodeOptions, IncrementalDecoder } from "./chat/tokenizer/incremental-decoder.ts";
export { loadTokenizer } from "./chat/tokenizer/load-tokenizer.ts";
export { createTokenizer, type EncodeOptions, type Tokenizer } from "./chat/tokenizer/tokenizer.ts";
export { type WordTokenizerOptions, wordTokenizerFiles } from "./chat/tokenizer/word-tokenizer.ts";
export {
  type AdaptationConfig,
  type AdaptationRunFile,
  adaptationConfig,
  defineAdaptationRun,
} from "./control/adaptation/adaptation-config.ts";
export { type CollectorState, type ControlActor, ControlCollector } from "./control/collector/collector.ts";
export { type ControlEvaluationOptions, evaluateControl } from "./control/collector/evaluation.ts";
export { PolicyActor, type PolicyActorOptions } from "./control/collector/policy-actor.ts";
export { type ControlLoopOptions, type ControlLoopParts, runControlLoop } from "./control/control-loop.ts";
export type { ControlEpisode, ControlRollout } from "./control/control-rollout.ts";
export { checkVecEnv } from "./control/envs/check-vec-env.ts";
export { createControlEnv } from "./control/envs/classic/classic-env.ts";
export { createMujocoEnv } from "./control/envs/mujoco/create-mujoco-env.ts";
export { MujocoEnv } from "./control/envs/mujoco/mujoco-env.ts";
export type { MujocoFrame, MujocoShape } from "./control/envs/mujoco/mujoco-frame.ts";
export { pushGroups } from "./control/envs/mujoco/push.ts";
export { renderStrip, type StripOptions } from "./control/envs/mujoco/render-strip.ts";
export { createVecEnv, vecEnvOptions } from "./control/envs/vec-catalog.ts";
export type { ActionSpace, ObservationSlice, VecEnv, VecObservation, VecStep } from "./control/envs/vec-env.ts";
export {
  type ActionDistribution,
  Categorical,
  DiagonalGaussian,
  type Draws,
} from "./control/policy/action-distribution.ts";
export {
  type ControlNetworkOptions,
  ControlPolicy,
  type ControlPolicyOptions,
  createCritic,
} from "./control/policy/control-policy.ts";
export { ObservationNormalizer, type ObservationNormalizerOptions } from "./control/policy/observation-normalizer.ts";
export { type ControlPolicyShape, loadControlPolicy, saveControlPolicy } from "./control/policy/policy-files.ts";
export { type ControlLossOptions, type ControlRows, controlLosses } from "./control/ppo/losses.ts";
export { type ControlSchedule, ControlTrainer, type ControlTrainerOptions } from "./control/ppo/ppo-trainer.ts";
export { type ControlScores, scoreControl } from "./control/ppo/scores.ts";
export {
  type ControlConfig,
  type ControlRunFile,
  controlConfig,
  defineControlRun,
  type MakeVecEnv,
} from "./control/run/control-config.ts";
export { trainControl } from "./control/run/train-control.ts";
export { buildSource } from "./data/build-source.ts";
export { type CurriculumOptions, curriculum } from "./data/curriculum.ts";
export { type DataChoice, dataOptions } from "./data/data-options.ts";
export { datasetSource } from "./data/dataset-source.ts";
export { envSource } from "./data/env-source.ts";
export { loadPrompts, promptsFromRows } from "./data/load-prompts.ts";
export { mixSources } from "./data/mix-sources.ts";
export type { PromptSource } from "./data/prompt-source.ts";
export { readRows } from "./data/read-rows.ts";
export { splitByHash } from "./data/split-by-hash.ts";
export { buildEnv, catalogModule, type EnvChoice, envCatalog } from "./envs/catalog.ts";
export { checkEnv } from "./envs/check-env.ts";
export { type Agent, oracleAgent, type PlayedEpisode, playEpisode, randomAgent } from "./envs/play-episode.ts";
export { runInThreads } from "./envs/run-in-threads.ts";
export { seedPrompt } from "./envs/seed-prompt.ts";
export type {
  EnvDefinition,
  EnvFactory,
  EnvStep,
  EnvWords,
  MakeEnv,
  Observation,
  Opening,
  Reply,
  TextEnv,
} from "./envs/text-env.ts";
export type { Tool, ToolSource } from "./envs/tool-use/tool.ts";
export { createToolUse } from "./envs/tool-use/tool-use.ts";
export { invariant, RerollError } from "./errors/reroll-error.ts";
export { ReplayBuffer, type ReplayOptions } from "./experience/replay-buffer.ts";
export { type BuildOptions, buildSamples } from "./experience/sample-builder.ts";
export type { ChatMessage, ChatTool, ChatToolCall } from "./flow/chat-message.ts";
export type { Clock } from "./flow/clock.ts";
export { describeMetric, type Metrics } from "./flow/metrics.ts";
export type { JsonValue, Prompt } from "./flow/prompt.ts";
export type { SampleBatch, TokenSample } from "./flow/token-sample.ts";
export type { Trajectory, TrajectoryEnd, TrajectoryGroup, TrajectoryReward, Turn } from "./flow/trajectory.ts";
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
export { connectRemoteWeights } from "./generation/remote/remote-weights.ts";
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
export type { LoopObserver, LoopParts, LoopPosition } from "./loops/loop-parts.ts";
export { type LoopOptions, runRolloutLoop } from "./loops/rollout-loop.ts";
export { runSupervisedLoop } from "./loops/supervised-loop.ts";
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
export { deriveSeed, Random } from "./random/random.ts";
export { buildReward, buildRoute, type RewardChoice, rewards } from "./rewards/catalog.ts";
export { combineRewards } from "./rewards/combine-rewards.ts";
export { compareAnswers } from "./rewards/math/compare-answers.ts";
export { extractAnswer } from "./rewards/math/extract-answer.ts";
export type { CostClass, Reward, RewardInput, RewardScore } from "./rewards/reward.ts";
export { type RewardRoute, routeByDomain } from "./rewards/route-by-domain.ts";
export { createScorer, type RewardOutcome, type Scorer, type ScorerOptions } from "./rewards/score-all.ts";
export { type Admission, admitByStaleness, admitWanted } from "./rollout/admission.ts";
export { type AgentCall, createAgentEpisodes, type RunAgent } from "./rollout/agent-episode.ts";
export { ChatFormat, type ChatFormatOptions, Conversation } from "./rollout/conversation.ts";
export {
  createEpisodeRunner,
  defaultEpisodeLimits,
  type EpisodeControl,
  type EpisodeLimits,
  type EpisodeParts,
  type EpisodeTask,
  type RunEpisode,
} from "./rollout/episode.ts";
export { allFilters, dropEqualRewards, type GroupFilter, keepDifficulty } from "./rollout/group-filter.ts";
export type { Rollout, RolloutReport } from "./rollout/rollout-report.ts";
export {
  type DomainSource,
  RolloutScheduler,
  type SampleEvent,
  type SchedulerOptions,
  type SchedulerParts,
} from "./rollout/rollout-scheduler.ts";
export { defineRun } from "./run/define-run.ts";
export { type RunConfig, type RunInput, runConfig } from "./run/run-config.ts";
export type { OpenRun } from "./run/run-training.ts";
export { type TrainOptions, type TrainResult, trainRun } from "./run/train-run.ts";
export { createJavaScriptSandbox } from "./sandbox/javascript-sandbox.ts";
export { checkSandbox, createPythonSandbox } from "./sandbox/python-sandbox.ts";
export type { Sandbox, SandboxLimits, SandboxProgram, SandboxResult } from "./sandbox/sandbox.ts";
export * from "./torch/index.ts";
export { listRuns, readMetrics, readRun, readTrajectories } from "./tracking/read-run.ts";
export { RunFolder } from "./tracking/run-folder.ts";
export { openRunTracker, type RunTracker } from "./tracking/run-tracker.ts";
export { createProcessGroupRanks } from "./training/process-group-ranks.ts";
export { startThreadedTrainer } from "./training/threaded-trainer.ts";
export { TokenTrainer, type TokenTrainerOptions, type TokenTrainerParts } from "./training/token-trainer.ts";
export type { Trainer } from "./training/trainer.ts";
export { createBroadcastSync, receiveWeights } from "./weight-sync/broadcast-sync.ts";
export { createFileSync } from "./weight-sync/file-sync.ts";
export { createSharedMemorySync } from "./weight-sync/shared-memory-sync.ts";
export type { WeightSync } from "./weight-sync/weight-sync.ts";

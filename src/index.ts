/**
 * What `import ... from "reroll"` gives: run files and what they are made of. Environments, rewards, agents, prompts, and the
 * reading of finished runs.
 *
 * The layers below have entry points of their own: reroll/loops, reroll/generation, reroll/models, reroll/algorithms, reroll/torch,
 * reroll/control and reroll/testing. docs/decisions/2026-11-15-entry-points.md says what belongs where.
 */

export { buildSource } from "./data/build-source.ts";
export { curriculum } from "./data/curriculum.ts";
export { datasetSource } from "./data/dataset-source.ts";
export { envSource } from "./data/env-source.ts";
export { loadPrompts, promptsFromRows } from "./data/load-prompts.ts";
export { mixSources } from "./data/mix-sources.ts";
export type { PromptSource } from "./data/prompt-source.ts";
export { readRows } from "./data/read-rows.ts";
export { splitByHash } from "./data/split-by-hash.ts";
export { writeParquet } from "./data/write-parquet.ts";
export { buildEnv } from "./envs/catalog.ts";
export { checkEnv } from "./envs/check-env.ts";
export { type Agent, oracleAgent, playEpisode, randomAgent } from "./envs/play-episode.ts";
export { runInThreads } from "./envs/run-in-threads.ts";
export { sokobanVariants } from "./envs/sokoban/sokoban.ts";
export type {
  EnvDefinition,
  EnvFactory,
  EnvStep,
  Observation,
  Opening,
  Reply,
  TextEnv,
} from "./envs/text-env.ts";
export type { Tool, ToolSource } from "./envs/tool-use/tool.ts";
export { createToolUse, toolUseOptions } from "./envs/tool-use/tool-use.ts";
export { RerollError } from "./errors/reroll-error.ts";
export type { ChatMessage } from "./flow/chat-message.ts";
export type { JsonValue, Prompt } from "./flow/prompt.ts";
export { deriveSeed, Random } from "./random/random.ts";
export { buildReward, buildRoute } from "./rewards/catalog.ts";
export { combineRewards } from "./rewards/combine-rewards.ts";
export type { Reward, RewardInput, RewardScore } from "./rewards/reward.ts";
export { routeByDomain } from "./rewards/route-by-domain.ts";
export { createScorer, type RewardOutcome } from "./rewards/score-all.ts";
export type { AgentCall, AgentEndpoint, AgentScore, RunAgent } from "./rollout/agent-call.ts";
export { defineRun, type RunFile } from "./run/define-run.ts";
export { createJavaScriptSandbox } from "./sandbox/javascript-sandbox.ts";
export { checkSandbox, createPythonSandbox } from "./sandbox/python-sandbox.ts";
export type { Sandbox } from "./sandbox/sandbox.ts";

export { listRuns, readMetrics, readRun, readTrajectories } from "./tracking/read-run.ts";
export type { RunInfo } from "./tracking/run-record.ts";
export type { TrajectoryRecord } from "./tracking/trajectory-record.ts";
export { defineTuning } from "./tuning/tuning-config.ts";

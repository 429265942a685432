/**
 * What `import ... from "reroll/loops"` gives: the parts between an engine and an optimizer, for loops of your own.
 *
 * Rollout, rows and replay, trainers, weight sync, the loops that put them in order, and the tracker that writes the
 * run folder.
 */

export { ChatFormat, type ChatFormatOptions } from "../chat/conversation.ts";
export { ReplayBuffer, type ReplayOptions } from "../experience/replay-buffer.ts";
export { type BuildOptions, buildSamples } from "../experience/sample-builder.ts";
export type { Clock } from "../flow/clock.ts";
export { describeMetric, type Metrics } from "../flow/metrics.ts";
export type { SampleEvent } from "../flow/sample-event.ts";
export type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
export type { Trajectory, TrajectoryEnd, TrajectoryGroup, TrajectoryReward, Turn } from "../flow/trajectory.ts";
export { type Admission, admitByStaleness, admitWanted } from "../rollout/admission.ts";
export { createAgentEpisodes } from "../rollout/agent-episode.ts";
export {
  createEpisodeRunner,
  defaultEpisodeLimits,
  type EpisodeControl,
  type EpisodeLimits,
  type EpisodeParts,
  type EpisodeTask,
  type RunEpisode,
} from "../rollout/episode.ts";
export { allFilters, dropEqualRewards, type GroupFilter, keepDifficulty } from "../rollout/group-filter.ts";
export type { Rollout, RolloutReport } from "../rollout/rollout-report.ts";
export {
  type DomainSource,
  RolloutScheduler,
  type SchedulerOptions,
  type SchedulerParts,
} from "../rollout/rollout-scheduler.ts";
export type { MetricSink, OpenSink, SinkContext } from "../tracking/metric-sink.ts";
export { type MlflowOptions, mlflowSink } from "../tracking/mlflow-sink.ts";
export { type FolderOptions, RunFolder, type RunPlan } from "../tracking/run-folder.ts";
export { openRunTracker, type RunTracker, type TrackerParts } from "../tracking/run-tracker.ts";
export { tensorboardSink } from "../tracking/tensorboard-sink.ts";
export { type WandbOptions, wandbSink } from "../tracking/wandb-sink.ts";
export { createProcessGroupRanks } from "../training/process-group-ranks.ts";
export { startThreadedTrainer } from "../training/threaded-trainer.ts";
export { TokenTrainer, type TokenTrainerOptions, type TokenTrainerParts } from "../training/token-trainer.ts";
export type { Trainer } from "../training/trainer.ts";
export { createBroadcastSync, receiveWeights } from "../weight-sync/broadcast-sync.ts";
export { createFileSync } from "../weight-sync/file-sync.ts";
export { createSharedMemorySync } from "../weight-sync/shared-memory-sync.ts";
export type { WeightSync } from "../weight-sync/weight-sync.ts";
export type { LoopObserver, LoopParts, LoopPosition } from "./loop-parts.ts";
export { type LoopOptions, runRolloutLoop } from "./rollout-loop.ts";
export { runTuningLoop } from "./tuning-loop.ts";

/** What `import ... from "reroll/control"` gives: vector environments, their PPO, and adaptation to hidden physics. */

export {
  type AdaptationConfig,
  type AdaptationRunFile,
  adaptationConfig,
  defineAdaptationRun,
} from "./adaptation/config.ts";
export { buildAdaptation } from "./adaptation/learner.ts";
export { phaseAt } from "./adaptation/phase-plan.ts";
export { type CollectorState, type ControlActor, ControlCollector } from "./collector/collector.ts";
export { PolicyActor, type PolicyActorOptions } from "./collector/policy-actor.ts";
export {
  type ControlConfig,
  type ControlRunFile,
  controlConfig,
  defineControlRun,
  type MakeVecEnv,
} from "./control-config.ts";
export { type ControlLoopOptions, type ControlLoopParts, runControlLoop } from "./control-loop.ts";
export type { ControlEpisode, ControlRollout } from "./control-rollout.ts";
export { checkVecEnv } from "./envs/check-vec-env.ts";
export { ControlEnv, createControlEnv } from "./envs/classic/classic-env.ts";
export type { ControlTask } from "./envs/classic/control-task.ts";
export { createMujocoEnv } from "./envs/mujoco/create-mujoco-env.ts";
export { MujocoEnv } from "./envs/mujoco/mujoco-env.ts";
export type { MujocoFrame, MujocoShape } from "./envs/mujoco/mujoco-frame.ts";
export { pushGroups } from "./envs/mujoco/push.ts";
export { renderStrip, type StripOptions } from "./envs/mujoco/render-strip.ts";
export { createVecEnv, vecEnvOptions } from "./envs/vec-catalog.ts";
export type { ActionSpace, ObservationSlice, VecEnv, VecObservation, VecStep } from "./envs/vec-env.ts";
export { type ControlEvaluationOptions, evaluateControl } from "./evaluation.ts";
export {
  type ActionDistribution,
  Categorical,
  DiagonalGaussian,
  type Draws,
} from "./policy/action-distribution.ts";
export {
  type ControlNetworkOptions,
  ControlPolicy,
  type ControlPolicyOptions,
  type ControlPolicyShape,
  createCritic,
  loadControlPolicy,
  saveControlPolicy,
} from "./policy/control-policy.ts";
export { ObservationNormalizer, type ObservationNormalizerOptions } from "./policy/observation-normalizer.ts";
export { type ControlLossOptions, type ControlRows, controlLosses } from "./ppo/losses.ts";
export { type ControlScores, scoreControl } from "./ppo/scores.ts";
export { type ControlSchedule, ControlTrainer, type ControlTrainerOptions } from "./ppo/trainer.ts";
export { trainControl } from "./run/train-control.ts";

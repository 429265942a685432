/** The arms of the adaptation benchmark, their common settings, and what a run of one comes to. */

import { type AdaptationConfig, adaptationConfig } from "../src/control/adaptation/config.ts";
import { type ControlConfig, controlConfig } from "../src/control/control-config.ts";
import { createVecEnv } from "../src/control/envs/vec-catalog.ts";
import type { VecEnv } from "../src/control/envs/vec-env.ts";
import type { Machine } from "./report.ts";

/** What each arm may know and remember. All of them take the same number of steps. */
export const ARMS = {
  adaptation: "teacher with privileged input, student with a GRU: phases train, adapt, finetune",
  "adaptation without memory": "the same with an adapt module that sees only the present",
  "teacher alone": "the teacher, privileged input and all, for as many steps as the student has in the end",
  "no adaptation": "an actor of the student's shape whose latent is always 0, PPO from the start with the same critic",
  "plain PPO": "a policy and a critic that see cmd, obs and object",
  "recurrent PPO": "the student's networks, GRU and all, trained end to end by PPO with a critic that sees everything",
} as const;

export type Arm = keyof typeof ARMS;

/** The physics that policies are evaluated on: 200 episodes of each, with the means of the actions. */
export const EVALUATIONS = {
  /** New episodes of the physics of training. */
  training: { split: "train" },
  /** Mass, damping, strength and tilt beyond the ranges of training; the turn of the motors' frame in its outer fifth. */
  heldOut: { split: "heldOut", physics: { motorRotation: 96 } },
  /** The turn beyond its range as well. */
  heldOutTurn: { split: "heldOut" },
} as const;

export type Returns = Readonly<Record<keyof typeof EVALUATIONS, number>>;

/** Episodes of an evaluation. */
export const NUM_EPISODES = 200;

const NUM_ENVS = 64;
const TICKS = 32;
const STEPS = { train: 1_000_000, adapt: 200_000, finetune: 800_000 } as const;
const HIDDEN = [64, 64];
const LR = 1e-3;

/** A run of an arm. */
export interface AdaptationRun {
  readonly arm: Arm;
  readonly seed: number;
  /** By who was evaluated, after how many steps. */
  readonly stages: readonly { readonly stage: string; readonly envSteps: number; readonly returns: Returns }[];
  readonly seconds: number;
  readonly machine: Machine;
  readonly date: string;
}

/** Environments to train in. */
export const openTraining = (): Promise<VecEnv> => createVecEnv({ type: "push", numEnvs: NUM_ENVS });

/** Environments to evaluate in. */
export const openEvaluation = (name: keyof typeof EVALUATIONS): Promise<VecEnv> =>
  createVecEnv({ type: "push", numEnvs: NUM_EPISODES / 2, ...EVALUATIONS[name] });

/** Settings of the arms with a teacher. */
export function adaptationSettings(arm: Arm, seed: number, scale: number): AdaptationConfig {
  return adaptationConfig.parse({
    kind: "adaptation",
    name: "push-adaptation",
    seed,
    env: { type: "push", numEnvs: NUM_ENVS },
    policy: {
      latentSize: 32,
      actorHidden: HIDDEN,
      criticHidden: HIDDEN,
      logStd: -0.5,
      adaptModule: arm === "adaptation" || arm === "recurrent PPO" ? { type: "gru" } : { type: "mlp" },
    },
    algorithm: { type: "roa", lr: LR },
    loop: {
      ticks: TICKS,
      train: STEPS.train * scale,
      adapt: STEPS.adapt * scale,
      finetune: STEPS.finetune * scale,
    },
  });
}

/** Settings of PPO alone: the same but for what it cannot have. */
export function plainSettings(seed: number, scale: number): ControlConfig {
  return controlConfig.parse({
    kind: "control",
    name: "push-plain",
    seed,
    env: { type: "push", numEnvs: NUM_ENVS },
    policy: { hidden: HIDDEN, activation: "tanh", normalizeObservations: true, logStd: -0.5 },
    algorithm: {
      type: "ppo",
      lr: LR,
      epochs: 5,
      minibatches: 4,
      entropy: 0.001,
      maxGradNorm: 1,
      schedule: { type: "kl", targetKl: 0.01 },
    },
    loop: { steps: (STEPS.train + STEPS.adapt + STEPS.finetune) * scale, ticks: TICKS },
  });
}

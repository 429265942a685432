/** The options of training as run files give them: optimizer, schedule, and how a batch goes through the model. */
import { z } from "zod";
import { AdamW } from "../torch/optim/adamw.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { decayMatrices, type NamedParameters } from "../torch/optim/parameter-group.ts";
import { constantRate, cosineDecay, linearDecay, type Schedule, withWarmup } from "../torch/optim/schedule.ts";
import { strategyOptions } from "./strategy/strategy-options.ts";

export const scheduleOptions = z.strictObject({
  type: z
    .enum(["constant", "linear", "cosine"])
    .default("constant")
    .describe("How the learning rate falls after warm-up."),
  unit: z
    .enum(["updates", "rollout-steps"])
    .default("updates")
    .describe("Unit of warmup and length: optimizer updates, or rollout steps of several updates each."),
  warmup: z.int().min(0).default(0).describe("Updates (or rollout steps) over which the rate rises linearly from 0."),
  length: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("Updates (or rollout steps) over which the rate falls after warm-up. null: the rest of the run."),
  finalFactor: z.number().min(0).max(1).default(0).describe("Final rate, as a share of the full one."),
});

export type ScheduleOptions = z.output<typeof scheduleOptions>;

/** How long the run is, for schedules that are given in other units. */
export interface RunLength {
  readonly numUpdates: number;
  readonly updatesPerRolloutStep: number;
}

export function buildSchedule(options: ScheduleOptions, { numUpdates, updatesPerRolloutStep }: RunLength): Schedule {
  const { type, unit, finalFactor } = options;
  const perUnit = unit === "updates" ? 1 : updatesPerRolloutStep;
  const warmup = options.warmup * perUnit;
  const length = Math.max(1, options.length === null ? numUpdates - warmup : options.length * perUnit);
  const after =
    type === "constant"
      ? constantRate()
      : type === "linear"
        ? linearDecay(length, finalFactor)
        : cosineDecay(length, finalFactor);
  return withWarmup(warmup, after);
}

export const optimizerOptions = z.strictObject({
  lr: z.number().positive().describe("Learning rate."),
  betas: z
    .tuple([z.number().min(0).max(1), z.number().min(0).max(1)])
    .default([0.9, 0.999])
    .describe("Decay rates of Adam's two moments."),
  eps: z.number().positive().default(1e-8).describe("Added to the square root of Adam's second moment."),
  weightDecay: z.number().min(0).default(0).describe("Decoupled weight decay, applied to matrices only."),
  masterWeights: z
    .boolean()
    .default(true)
    .describe("Keep a float32 copy of 16-bit weights, so that small updates are not lost."),
  moments: z
    .enum(["full", "bfloat16", "8-bit"])
    .default("full")
    .describe(
      "Number format of Adam's two moments. full: float32, or that of 16-bit weights without a float32 copy. bfloat16 takes half of float32, 8-bit a quarter.",
    ),
});

export type OptimizerOptions = z.output<typeof optimizerOptions>;

/** @param isMatrix whether a parameter decays, by its name; for parts of parameters, which have lost their shape */
export function buildOptimizer(
  parameters: NamedParameters,
  options: OptimizerOptions,
  isMatrix?: (name: string) => boolean,
): Optimizer {
  const { lr, betas, eps, weightDecay, masterWeights, moments } = options;
  return new AdamW(decayMatrices(parameters, weightDecay, isMatrix), { lr, betas, eps, masterWeights, moments });
}

/** The options of reinforcement learning steps: `training` in a run file. */
export const trainingOptions = z.strictObject({
  optimizer: optimizerOptions,
  schedule: scheduleOptions.prefault({}),
  minibatch: z.int().min(0).default(0).describe("Trajectories per update. 0: one update per rollout."),
  maxTokensPerMicrobatch: z
    .int()
    .positive()
    .default(16_384)
    .describe("Tokens in one forward and backward pass: bounds its memory, and changes nothing else."),
  maxGradNorm: z.number().positive().default(1).describe("Gradients with a larger norm are scaled down to this one."),
  ...strategyOptions,
  recompute: z
    .boolean()
    .default(false)
    .describe("Compute activations again in the backward pass instead of keeping them: less memory, more time."),
  threads: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe(
      "Threads of one operator in the trainer. null: every core, or half of them in an asynchronous loop, divided by ranks.",
    ),
});

export type TrainingOptions = z.output<typeof trainingOptions>;

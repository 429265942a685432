/**
 * What a run file of control says: a vector environment, a policy, PPO, and how long.
 *
 * A run file holds what differs from the defaults, which are those of the reference implementations for small tasks.
 */
import { z } from "zod";
import { runConfig } from "../../run/run-config.ts";
import { type ActivationName, activations } from "../../torch/nn/activation.ts";
import { vecEnvOptions } from "../envs/vec-catalog.ts";
import type { VecEnv } from "../envs/vec-env.ts";

/** Makes environments of one's own. */
export type MakeVecEnv = (numEnvs: number) => VecEnv | Promise<VecEnv>;

const customEnv = z.strictObject({
  type: z.literal("custom"),
  numEnvs: z.int().positive().default(4).describe("Copies that step together."),
  create: z
    .custom<MakeVecEnv>((value) => typeof value === "function", "must be a function")
    .describe("Makes that many. Called in the thread of the run, and once more where there is a validation."),
});

const policyOptions = z.strictObject({
  hidden: z.array(z.int().positive()).default([64, 64]).describe("Widths of the hidden layers, of the critic too."),
  activation: z
    .enum(Object.keys(activations) as [ActivationName])
    .default("tanh")
    .describe("Between the layers."),
  normalizeObservations: z
    .boolean()
    .default(false)
    .describe("Networks see observations with mean 0 and deviation 1, within 10 deviations."),
  logStd: z.number().default(0).describe("First log standard deviation of continuous actions."),
});

const ppoOptions = z.strictObject({
  type: z.literal("ppo").describe("Proximal policy optimization."),
  gamma: z.number().min(0).max(1).default(0.99).describe("Discount of the reward per tick."),
  lambda: z
    .number()
    .min(0)
    .max(1)
    .default(0.95)
    .describe("Trade-off between bias (0) and variance (1) in generalized advantage estimation."),
  clip: z.number().positive().max(1).default(0.2).describe("Ratios beyond 1 - clip and 1 + clip have no gradient."),
  valueClip: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("How far a value may move from the old one within a step. null: as far as it likes."),
  entropy: z.number().min(0).default(0).describe("Weight of the entropy of the policy."),
  epochs: z.int().positive().default(4).describe("Passes over a rollout."),
  minibatches: z.int().positive().default(4).describe("Parts of a pass, with an update each."),
  maxGradNorm: z
    .number()
    .positive()
    .default(0.5)
    .describe("Gradients of the policy, and of the critic, with a larger norm are scaled down to this one."),
  lr: z.number().positive().default(3e-4).describe("Learning rate."),
  criticLr: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Learning rate of the critic. null: that of the policy."),
  schedule: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("constant") }),
      z.strictObject({ type: z.literal("linear") }),
      z.strictObject({
        type: z.literal("kl"),
        target: z.number().positive().default(0.01).describe("How far one step may move the policy, as KL."),
      }),
    ])
    .prefault({ type: "linear" })
    .describe("Learning rates: constant, on a line to 0, or the policy's by the KL of its updates."),
  normalizeAdvantages: z.boolean().default(true).describe("Mean 0 and deviation 1 within a minibatch."),
  normalizeRewards: z
    .boolean()
    .default(false)
    .describe("Divide rewards by the running deviation of the discounted return."),
});

const validationOptions = z.strictObject({
  every: z.int().min(0).default(0).describe("Steps between validations; 0: only at the start and the end."),
  episodes: z
    .int()
    .positive()
    .default(10)
    .describe("Episodes of the most likely actions, from the same starts every time."),
  metric: z.string().default("reward/mean").describe("What the best checkpoint is chosen by."),
  stopAt: z.number().nullable().default(null).describe("End the run when the metric has reached this."),
  patience: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("End it after this many validations without a better one."),
});

/** The whole run file. */
export const controlConfig = z.strictObject({
  kind: z.literal("control").describe("What makes it a control run."),
  name: runConfig.shape.name,
  seed: runConfig.shape.seed,
  env: z.discriminatedUnion("type", [vecEnvOptions, customEnv]).describe("The environment: { type, ...options }."),
  policy: policyOptions.prefault({}),
  algorithm: z.discriminatedUnion("type", [ppoOptions]).prefault({ type: "ppo" }).describe("How the policy learns."),
  loop: z
    .strictObject({
      steps: z.int().positive().default(500_000).describe("Steps of single environments in the whole run."),
      ticks: z.int().positive().default(128).describe("Ticks of all environments per rollout."),
    })
    .prefault({}),
  threads: z.int().positive().default(1).describe("Threads of one operator. Small networks are fastest with one."),
  validation: validationOptions
    .nullable()
    .default(null)
    .describe("How good the policy is without chance in its actions."),
  checkpoint: runConfig.shape.checkpoint,
  tracking: runConfig.shape.tracking.unwrap().omit({ trajectoriesEvery: true, maxGroups: true }).prefault({}),
});

/** A control run with every key settled. */
export type ControlConfig = z.output<typeof controlConfig>;

/** What a run file of control may hold. */
export type ControlRunFile = Omit<z.input<typeof controlConfig>, "kind">;

/**
 * A control run, typed. Give it as the default export of a run file.
 *
 * @example export default defineControlRun({ env: { type: "cart-pole" }, loop: { steps: 100_000 } });
 */
export function defineControlRun(run: ControlRunFile): z.input<typeof controlConfig> {
  return { kind: "control", ...run };
}

/** Rollouts of a run: the least number that takes all its steps. */
export function numRollouts({ loop, env }: ControlConfig): number {
  return Math.ceil(loop.steps / (loop.ticks * env.numEnvs));
}

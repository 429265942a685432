/**
 * The run file of control: a vector environment, a policy, PPO, and how long to train.
 *
 * A run file holds what differs from the defaults, which are those that reference implementations use for small tasks.
 */
import { z } from "zod";
import { runConfig } from "../run/run-config.ts";
import { validationGoal } from "../run/validation-goal.ts";
import { type ActivationName, activations } from "../torch/nn/activation.ts";
import { vecEnvOptions } from "./envs/vec-catalog.ts";
import type { VecEnv } from "./envs/vec-env.ts";

/** Creates the user's own environments. */
export type MakeVecEnv = (numEnvs: number) => VecEnv | Promise<VecEnv>;

const customEnv = z.strictObject({
  type: z.literal("custom"),
  numEnvs: z.int().positive().default(4).describe("Number of copies that step together."),
  create: z
    .custom<MakeVecEnv>((value) => typeof value === "function", "must be a function")
    .describe(
      "Creates numEnvs environments. Called in the run's worker thread, and a second time if there is a validation.",
    ),
});

const policyOptions = z.strictObject({
  hidden: z
    .array(z.int().positive())
    .default([64, 64])
    .describe("Widths of the hidden layers of both the policy and the critic."),
  activation: z
    .enum(Object.keys(activations) as [ActivationName])
    .default("tanh")
    .describe("Activation function between the layers."),
  normalizeObservations: z
    .boolean()
    .default(false)
    .describe("Normalize observations to mean 0 and standard deviation 1, clipped to [-10, 10]."),
  logStd: z.number().default(0).describe("Initial log standard deviation of continuous actions."),
});

/** The options of PPO. */
export const ppoOptions = z.strictObject({
  type: z.literal("ppo").describe("Proximal policy optimization."),
  gamma: z.number().min(0).max(1).default(0.99).describe("Discount factor per tick."),
  lambda: z.number().min(0).max(1).default(0.95).describe("Lambda of generalized advantage estimation."),
  clip: z
    .number()
    .positive()
    .max(1)
    .default(0.2)
    .describe("PPO's clip range: probability ratios outside [1 - clip, 1 + clip] get no gradient."),
  valueClip: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Bound on how far the updates of a rollout may move a value. null: no bound."),
  entropy: z.number().min(0).default(0).describe("Weight of the entropy bonus."),
  epochs: z.int().positive().default(4).describe("Passes over each rollout."),
  minibatches: z.int().positive().default(4).describe("Minibatches per pass, with one update each."),
  maxGradNorm: z
    .number()
    .positive()
    .default(0.5)
    .describe("Bound on the gradient norm, for the policy and for the critic each."),
  lr: z.number().positive().default(3e-4).describe("Learning rate of the policy."),
  criticLr: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Learning rate of the critic. null: the same as the policy's."),
  schedule: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("constant") }),
      z.strictObject({ type: z.literal("linear") }),
      z.strictObject({
        type: z.literal("kl"),
        targetKl: z
          .number()
          .positive()
          .default(0.01)
          .describe("KL between the policy and the one that acted that the learning rate is steered to."),
      }),
    ])
    .prefault({ type: "linear" })
    .describe(
      "How learning rates change: never (constant), linearly to 0 at the last step (linear), or the policy's with the KL of its updates (kl).",
    ),
  normalizeAdvantages: z
    .boolean()
    .default(true)
    .describe("Scale the advantages of each minibatch to mean 0 and standard deviation 1."),
  normalizeRewards: z
    .boolean()
    .default(false)
    .describe("Divide rewards by the running standard deviation of the discounted return."),
});

const validationOptions = z.strictObject({
  every: z.int().min(0).default(0).describe("Training steps between validations. 0: only at the start and at the end."),
  episodes: z
    .int()
    .positive()
    .default(10)
    .describe("Episodes per validation, played with the most likely actions from the same starts every time."),
  metric: z.string().default("reward/mean").describe("Metric by which the best checkpoint is chosen."),
  ...validationGoal,
});

/** The whole run file. */
export const controlConfig = z.strictObject({
  kind: z.literal("control").describe("Marks a control run."),
  name: runConfig.shape.name,
  seed: runConfig.shape.seed,
  env: z.discriminatedUnion("type", [vecEnvOptions, customEnv]).describe("The environment: { type, ...options }."),
  policy: policyOptions.prefault({}),
  algorithm: z
    .discriminatedUnion("type", [ppoOptions])
    .prefault({ type: "ppo" })
    .describe("The learning algorithm: { type, ...options }."),
  loop: z
    .strictObject({
      steps: z
        .int()
        .positive()
        .default(500_000)
        .describe("Environment steps in the whole run, summed over all environments."),
      ticks: z.int().positive().default(128).describe("Steps that every environment makes per rollout."),
    })
    .prefault({}),
  threads: z.int().positive().default(1).describe("Threads per tensor operation. Small networks are fastest with one."),
  validation: validationOptions
    .nullable()
    .default(null)
    .describe("Measure the return of the deterministic policy now and then. null: never."),
  checkpoint: runConfig.shape.checkpoint,
  tracking: runConfig.shape.tracking.unwrap().omit({ trajectoriesEvery: true, maxGroups: true }).prefault({}),
});

/** A control run with every key settled. */
export type ControlConfig = z.output<typeof controlConfig>;

/** The content of a run file of control. */
export type ControlRunFile = Omit<z.input<typeof controlConfig>, "kind">;

/**
 * A control run, typed. Give it as the default export of a run file.
 *
 * @example export default defineControlRun({ env: { type: "cart-pole" }, loop: { steps: 100_000 } });
 */
export function defineControlRun(run: ControlRunFile): z.input<typeof controlConfig> {
  return { kind: "control", ...run };
}

/** Rollouts of a run: the smallest number that covers all its steps. */
export function numRollouts({ loop, env }: ControlConfig): number {
  return Math.ceil(loop.steps / (loop.ticks * env.numEnvs));
}

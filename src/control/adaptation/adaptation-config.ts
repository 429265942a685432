/**
 * What a run file of teacher/student adaptation says: a vector environment with privileged observations, the networks of
 * teacher and student, how both learn, and how long each phase lasts.
 *
 * Defaults are those of HDMI but for what it sets for thousands of environments at once.
 */
import { z } from "zod";
import { controlConfig } from "../run/control-config.ts";

const adaptModuleOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("mlp"),
    history: z.int().positive().default(1).describe("Ticks that it sees side by side; 1: only the present."),
  }),
  z.strictObject({ type: z.literal("gru") }),
]);

const policyOptions = z.strictObject({
  latentSize: z
    .int()
    .positive()
    .default(256)
    .describe("Numbers in the latent; width of the encoder and the adapt module."),
  actorHidden: z
    .array(z.int().positive())
    .default([512, 256, 256])
    .describe("Widths of the hidden layers of teacher and student."),
  criticHidden: z
    .array(z.int().positive())
    .default([512, 256, 128])
    .describe("Widths of the hidden layers of the critic."),
  adaptModule: adaptModuleOptions.prefault({ type: "gru" }).describe("What infers the latent from the past."),
  logStd: z.number().default(0).describe("First log standard deviation of the actions."),
  normalizerDecay: z
    .number()
    .positive()
    .max(1)
    .default(0.9999)
    .describe("Weight of what is known of observations for each tick that passes. Frozen after train."),
});

const roaOptions = z.strictObject({
  type: z.literal("roa"),
  gamma: z.number().min(0).max(1).default(0.99).describe("Discount of the reward per tick."),
  lambda: z
    .number()
    .min(0)
    .max(1)
    .default(0.95)
    .describe("Trade-off between bias (0) and variance (1) in generalized advantage estimation."),
  clip: z.number().positive().max(1).default(0.2).describe("Ratios beyond 1 - clip and 1 + clip have no gradient."),
  entropy: z.number().min(0).default(0.001).describe("Weight of the entropy of the policy."),
  policyEpochs: z.int().positive().default(5).describe("Passes of PPO over a rollout."),
  policyMinibatches: z.int().positive().default(4).describe("Parts of a pass, with an update each."),
  adaptEpochs: z.int().min(0).default(2).describe("Passes of the regression towards the teacher over a rollout."),
  adaptMinibatches: z.int().positive().default(4).describe("Parts of a pass: whole sequences of some environments."),
  imitateOn: z
    .enum(["encoded", "predicted"])
    .default("encoded")
    .describe("The latent that the student is fed while it learns the teacher's actions: the encoder's, or its own."),
  lr: z.number().positive().default(3e-4).describe("Learning rate. The policy's follows targetKl from here."),
  targetKl: z
    .number()
    .positive()
    .nullable()
    .default(0.01)
    .describe("How far one rollout's updates may move the policy, as KL. null: the learning rate stays."),
  maxGradNorm: z
    .number()
    .positive()
    .default(1)
    .describe("Gradients of each optimizer with a larger norm are scaled down to this one."),
  emaRate: z
    .number()
    .min(0)
    .max(1)
    .default(0.04)
    .describe("Part of the way that the slow copy of the adapt module goes after each rollout."),
  encoderPull: z
    .strictObject({
      weight: z.number().min(0).default(0.1).describe("At the end of its rise."),
      rollouts: z.int().positive().default(100).describe("Rollouts over which the weight rises from 0."),
    })
    .nullable()
    .default(null)
    .describe(
      "Pull the encoder towards what the adapt module can infer. null: the teacher never hears of the student.",
    ),
});

/** The whole run file. */
export const adaptationConfig = controlConfig.omit({ kind: true, policy: true, algorithm: true, loop: true }).extend({
  kind: z.literal("adaptation").describe("What kind of run this is: teacher/student adaptation."),
  policy: policyOptions.prefault({}),
  algorithm: z.discriminatedUnion("type", [roaOptions]).prefault({ type: "roa" }).describe("How the policies learn."),
  loop: z
    .strictObject({
      ticks: z.int().positive().default(32).describe("Ticks of all environments per rollout."),
      train: z.int().positive().default(1_000_000).describe("Steps of single environments in phase train."),
      adapt: z.int().min(0).default(0).describe("Those in phase adapt."),
      finetune: z.int().min(0).default(500_000).describe("Those in phase finetune."),
    })
    .prefault({}),
});

/** A run of adaptation with every key settled. */
export type AdaptationConfig = z.output<typeof adaptationConfig>;

/** What a run file of adaptation may hold. */
export type AdaptationRunFile = Omit<z.input<typeof adaptationConfig>, "kind">;

/**
 * A run of teacher/student adaptation, typed. Give it as the default export of a run file.
 *
 * @example export default defineAdaptationRun({ env: { type: "push", numEnvs: 64 }, loop: { train: 1_000_000 } });
 */
export function defineAdaptationRun(run: AdaptationRunFile): z.input<typeof adaptationConfig> {
  return { kind: "adaptation", ...run };
}

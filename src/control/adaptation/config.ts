/**
 * The run file of teacher/student adaptation: a vector environment with privileged observations, the networks of teacher and
 * student, how both learn, and how long each phase lasts.
 *
 * The defaults are those of HDMI, except for settings that assume thousands of environments.
 */
import { z } from "zod";
import { type ControlConfig, controlConfig, ppoOptions } from "../control-config.ts";

const adaptModuleOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("mlp"),
    history: z
      .int()
      .positive()
      .default(1)
      .describe("Number of ticks that the network sees side by side, the present one included."),
  }),
  z.strictObject({ type: z.literal("gru") }),
]);

const policyOptions = z.strictObject({
  latentSize: z
    .int()
    .positive()
    .default(256)
    .describe("Size of the latent, and width of the hidden layers of encoder and adapt module."),
  actorHidden: z
    .array(z.int().positive())
    .default([512, 256, 256])
    .describe("Widths of the hidden layers of the teacher's and the student's actor."),
  criticHidden: z
    .array(z.int().positive())
    .default([512, 256, 128])
    .describe("Widths of the hidden layers of the critic."),
  adaptModule: adaptModuleOptions
    .prefault({ type: "gru" })
    .describe("The network that infers the latent from the past."),
  logStd: z.number().default(0).describe("Initial log standard deviation of the actions."),
  normalizerDecay: z
    .number()
    .positive()
    .max(1)
    .default(0.9999)
    .describe(
      "Factor by which the weight of earlier observations in the normalizer shrinks per tick. Its statistics are frozen after train.",
    ),
});

const roaOptions = z.strictObject({
  type: z.literal("roa"),
  gamma: ppoOptions.shape.gamma,
  lambda: ppoOptions.shape.lambda,
  clip: ppoOptions.shape.clip,
  entropy: z.number().min(0).default(0.001).describe("Weight of the entropy bonus."),
  policyEpochs: z.int().positive().default(5).describe("Passes of PPO over each rollout."),
  policyMinibatches: z.int().positive().default(4).describe("Minibatches per pass of PPO, with one update each."),
  adaptEpochs: z.int().min(0).default(2).describe("Passes of the regression over each rollout."),
  adaptMinibatches: z
    .int()
    .positive()
    .default(4)
    .describe("Minibatches per pass of the regression, each made of whole sequences of some environments."),
  imitateOn: z
    .enum(["encoded", "predicted"])
    .default("encoded")
    .describe(
      "Latent that the student is given while it learns the teacher's actions: the encoder's, or the one it infers.",
    ),
  lr: z
    .number()
    .positive()
    .default(3e-4)
    .describe("Initial learning rate of all networks. Only the policy's changes, as targetKl says."),
  targetKl: z
    .number()
    .positive()
    .nullable()
    .default(0.01)
    .describe(
      "KL between the policy and the one that acted that the policy's learning rate is steered to. null keeps the rate constant.",
    ),
  maxGradNorm: z.number().positive().default(1).describe("Bound on the gradient norm of each network."),
  emaRate: z
    .number()
    .min(0)
    .max(1)
    .default(0.04)
    .describe("Fraction of the way to the adapt module that its slow copy moves after each rollout."),
  encoderPull: z
    .strictObject({
      weight: z.number().min(0).default(0.1).describe("Weight of the pull once it has risen."),
      rollouts: z.int().positive().default(100).describe("Number of rollouts over which the weight rises from 0."),
    })
    .nullable()
    .default(null)
    .describe(
      "Pull the encoder towards what the adapt module infers, so that the teacher relies on what a student can know. null: no pull.",
    ),
});

/** The whole run file. */
export const adaptationConfig = controlConfig.omit({ kind: true, policy: true, algorithm: true, loop: true }).extend({
  kind: z.literal("adaptation").describe("Marks a run of teacher/student adaptation."),
  policy: policyOptions.prefault({}),
  algorithm: z
    .discriminatedUnion("type", [roaOptions])
    .prefault({ type: "roa" })
    .describe("The learning algorithm: { type, ...options }."),
  loop: z
    .strictObject({
      ticks: z.int().positive().default(32).describe("Steps that every environment makes per rollout."),
      train: z
        .int()
        .positive()
        .default(1_000_000)
        .describe("Environment steps in phase train, summed over all environments."),
      adapt: z.int().min(0).default(0).describe("Environment steps in phase adapt. 0 leaves the phase out."),
      finetune: z
        .int()
        .min(0)
        .default(500_000)
        .describe("Environment steps in phase finetune. 0 leaves the phase out."),
    })
    .prefault({}),
});

/** A run of adaptation with every key settled. */
export type AdaptationConfig = z.output<typeof adaptationConfig>;

/** A settled run of either kind: PPO or adaptation. */
export type AnyControlConfig = ControlConfig | AdaptationConfig;

/** The content of a run file of adaptation. */
export type AdaptationRunFile = Omit<z.input<typeof adaptationConfig>, "kind">;

/**
 * A run of teacher/student adaptation, typed. Give it as the default export of a run file.
 *
 * @example export default defineAdaptationRun({ env: { type: "push", numEnvs: 64 }, loop: { train: 1_000_000 } });
 */
export function defineAdaptationRun(run: AdaptationRunFile): z.input<typeof adaptationConfig> {
  return { kind: "adaptation", ...run };
}

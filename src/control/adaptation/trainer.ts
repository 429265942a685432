/**
 * The training steps of teacher/student adaptation (PPO-ROA), by the rules of the current phase.
 *
 * In: a rollout of the policy that acts in this phase. Out: metrics; the weights that the phase names have changed, and no
 * others. PPO comes first, on the policy that acted; then the student regresses towards the teacher; then the slow copy of the
 * adapt module moves. Knows nothing of environments.
 */
import { readMetrics } from "../../algorithms/losses/loss-metrics.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { withPrefix } from "../../torch/optim/parameter-group.ts";
import { tensorScope } from "../../torch/scope.ts";
import { meanMetrics } from "../../training/mean-metrics.ts";
import type { ControlRollout } from "../control-rollout.ts";
import { GradientStep, type UpdateSummary } from "../ppo/gradient-step.ts";
import { trainByPpo } from "../ppo/ppo.ts";
import type { SavedParts } from "../trainer-checkpoint.ts";
import { type AdaptationBatch, batchOf } from "./batch.ts";
import { type PolicyLossOptions, policyObjective, policyRows } from "./objective.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";
import { type AdaptationPhase, phaseOrder, phaseRules } from "./policy/phases.ts";
import { type RegressionOptions, trainAdapt } from "./regression.ts";

/** All settings of training, for every phase. */
export interface AdaptationTrainerOptions extends PolicyLossOptions, RegressionOptions {
  readonly policyEpochs: number;
  readonly policyMinibatches: number;
  /** KL from the policy that acted that the policy's learning rate is steered to. null keeps the rate. */
  readonly targetKl: number | null;
  readonly lr: number;
  /** Fraction of the way to the adapt module that its slow copy moves after each rollout. */
  readonly emaRate: number;
  /**
   * The two-sided form of regularized online adaptation (arXiv:2210.10044): in train, the encoder is pulled towards what the adapt
   * module infers, with a weight that rises from 0 to `weight` over `iterations` steps. null: the student has no influence on
   * the encoder.
   */
  readonly encoderPull: { readonly weight: number; readonly iterations: number } | null;
  readonly seed: number;
}

/** Everything beside weights and optimizers that changes from step to step, as plain data. */
interface AdaptationTrainerState {
  readonly phase: AdaptationPhase;
  readonly numSteps: number;
  /** Steps since the phase began. */
  readonly numPhaseSteps: number;
}

/** Starts in phase train, with optimizers that have seen nothing. */
export class AdaptationTrainer {
  readonly policy: AdaptationPolicy;
  /** One optimizer per learner. The teacher's trains its encoder and its actor. */
  readonly optimizers: Readonly<Record<"teacher" | "critic" | "adapt" | "student", AdamW>>;
  readonly #gradientSteps: Readonly<Record<"actor" | "actorAdapt" | "adapt" | "imitation", GradientStep>>;
  readonly #options: AdaptationTrainerOptions;
  #state: AdaptationTrainerState = { phase: "train", numSteps: 0, numPhaseSteps: 0 };

  constructor(policy: AdaptationPolicy, options: AdaptationTrainerOptions) {
    this.policy = policy;
    this.#options = options;
    const { encoderPriv, actor, critic, adaptModule, actorAdapt } = policy;
    const settings = { lr: options.lr, weightDecay: 0 };
    this.optimizers = {
      teacher: new AdamW(
        new Map([
          ...withPrefix("encoderPriv", encoderPriv.namedParameters()),
          ...withPrefix("actor", actor.namedParameters()),
        ]),
        settings,
      ),
      critic: new AdamW(critic.namedParameters(), settings),
      adapt: new AdamW(adaptModule.namedParameters(), settings),
      student: new AdamW(actorAdapt.namedParameters(), settings),
    };
    const { teacher, student, adapt, critic: criticOptimizer } = this.optimizers;
    this.#gradientSteps = {
      actor: new GradientStep([teacher, criticOptimizer]),
      actorAdapt: new GradientStep([student, criticOptimizer]),
      adapt: new GradientStep([adapt]),
      imitation: new GradientStep([student]),
    };
  }

  get phase(): AdaptationPhase {
    return this.#state.phase;
  }

  state(): AdaptationTrainerState {
    return this.#state;
  }

  /** Continues from a saved state. Weights and optimizers are restored by whoever saved them. */
  restore(state: AdaptationTrainerState): void {
    this.#state = state;
    if (state.phase !== "train") this.policy.normalizer.freeze();
  }

  /** All weights are saved beside the teacher's optimizer, since some belong to no optimizer at all. */
  savedParts(): SavedParts {
    const { teacher, critic, adapt, student } = this.optimizers;
    return {
      teacher: { optimizer: teacher, parameters: this.policy.namedParameters() },
      critic: { optimizer: critic, parameters: new Map() },
      adapt: { optimizer: adapt, parameters: new Map() },
      student: { optimizer: student, parameters: new Map() },
    };
  }

  /**
   * Moves on to a later phase. On leaving train, the student takes over the teacher's standard deviation, which regression does
   * not teach, and the normalizer is frozen for good. The slow copy starts as a copy of the adapt module. A student that PPO is
   * about to train starts with a fresh optimizer.
   */
  enter(phase: AdaptationPhase): void {
    const from = this.#state.phase;
    if (phase === from) return;
    if (phaseOrder.indexOf(phase) < phaseOrder.indexOf(from)) throw backwards(from, phase);
    const { policy } = this;
    if (from === "train") {
      policy.normalizer.freeze();
      noGrad(() => void policy.actorAdapt.distribution.logStd_A.copy_(policy.actor.distribution.logStd_A));
    }
    policy.moveEma(1);
    if (phase === "finetune") {
      this.optimizers.student.dispose();
      for (const group of this.optimizers.student.groups) group.lr = group.baseLr;
    }
    this.#state = { ...this.#state, phase, numPhaseSteps: 0 };
  }

  step(rollout: ControlRollout): { readonly metrics: Metrics } {
    const { policy } = this;
    const { phase, numSteps, numPhaseSteps } = this.#state;
    const metrics = tensorScope(() => this.#learn(rollout));
    // Gradients take as much memory as the weights, and nobody reads them until the next step.
    for (const optimizer of Object.values(this.optimizers)) optimizer.zeroGrad();
    policy.moveEma(this.#options.emaRate);
    policy.normalizer.update(rollout);
    this.#state = { phase, numSteps: numSteps + 1, numPhaseSteps: numPhaseSteps + 1 };
    return { metrics };
  }

  #learn(rollout: ControlRollout): Metrics {
    const { numSteps, phase } = this.#state;
    const random = (use: string) => new Random(deriveSeed(this.#options.seed, use, numSteps));
    const batch = noGrad(() => batchOf(rollout, this.policy));
    const results = [
      ...(phaseRules[phase].trainsPolicy ? [this.#trainPolicy(rollout, batch, random("policy"))] : []),
      this.#trainStudent(batch, random("adapt")),
    ];
    return {
      ...Object.assign({}, ...results.map(({ metrics }) => metrics)),
      "train/skipped_updates": results.reduce((sum, { numSkipped }) => sum + numSkipped, 0),
    };
  }

  /** PPO on the policy that acted. */
  #trainPolicy(rollout: ControlRollout, batch: AdaptationBatch, random: Random): UpdateSummary {
    const { policyEpochs, policyMinibatches, maxGradNorm, targetKl } = this.#options;
    const { acts } = phaseRules[this.phase];
    const learner = { policy: this.policy, phase: this.phase, encoderPull: this.#encoderPull() };
    const policyOptimizer = acts === "actor" ? this.optimizers.teacher : this.optimizers.student;
    const { updates, numSkipped } = trainByPpo(
      noGrad(() => policyRows(learner, rollout, batch, this.#options)),
      {
        objective: (rows) => policyObjective(learner, rows, this.#options),
        gradientStep: this.#gradientSteps[acts],
        policyOptimizer,
        random: () => random,
      },
      {
        epochs: policyEpochs,
        minibatches: policyMinibatches,
        maxGradNorm,
        klRate: targetKl === null ? null : { targetKl, when: "after" },
      },
    );
    const records = updates.map(({ report, gradNorm, criticGradNorm }) => ({
      ...readMetrics(report.losses),
      "policy/kl": report.kl,
      "train/grad_norm": gradNorm.item(),
      "train/critic_grad_norm": criticGradNorm.item(),
    }));
    return { metrics: { ...meanMetrics(records), "train/lr": policyOptimizer.groups[0]!.lr }, numSkipped };
  }

  /** Regression of the student towards the teacher. */
  #trainStudent(batch: AdaptationBatch, random: Random): UpdateSummary {
    const { adapt, imitation } = this.#gradientSteps;
    const imitationStep = phaseRules[this.phase].matchesActions ? imitation : null;
    return trainAdapt({ policy: this.policy, adaptStep: adapt, imitationStep }, batch, this.#options, random);
  }

  #encoderPull(): number {
    const { encoderPull } = this.#options;
    if (encoderPull === null || this.#state.phase !== "train") return 0;
    return encoderPull.weight * Math.min(1, this.#state.numPhaseSteps / encoderPull.iterations);
  }
}

function backwards(from: AdaptationPhase, phase: AdaptationPhase): RerollError {
  return new RerollError(
    "INVALID_ARGUMENT",
    `phase "${phase}" comes before "${from}", where training is. Phases go ${phaseOrder.join(", ")}; adapt may be left out.`,
    { from, phase },
  );
}

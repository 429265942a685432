/**
 * Teacher/student adaptation (PPO-ROA): what one iteration trains, by the rules of the phase it is in.
 *
 * In: a rollout of the policy that acts in this phase. Out: metrics; the weights that the phase names have changed, and no
 * others. PPO comes first, on what was acted; then the student regresses towards the teacher; then the slow copy of the adapt
 * module moves. Knows nothing of environments.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { withPrefix } from "../../torch/optim/parameter-group.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { ControlRollout } from "../control-rollout.ts";
import { batchOf } from "./batch.ts";
import { type PolicyUpdateOptions, trainPolicy } from "./objective.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";
import { type AdaptationPhase, phaseRules } from "./policy/phases.ts";
import { type RegressionOptions, trainAdapt } from "./regression.ts";

/** All settings of training, for every phase. */
export interface AdaptationTrainerOptions extends PolicyUpdateOptions, RegressionOptions {
  readonly lr: number;
  /** Part of the way that the slow copy of the adapt module goes after each iteration. */
  readonly emaRate: number;
  /**
   * The two-sided form of regularized online adaptation (arXiv:2210.10044): in train, the encoder is pulled towards what the adapt
   * module infers, with a weight that rises from 0 to this over `iterations`. null: the encoder never hears of the student.
   */
  readonly encoderPull: { readonly weight: number; readonly iterations: number } | null;
  readonly seed: number;
}

/** What changes from step to step beside weights and optimizers. Plain data. */
export interface AdaptationTrainerState {
  readonly phase: AdaptationPhase;
  readonly numSteps: number;
  /** Of this phase. */
  readonly numPhaseSteps: number;
}

const order: readonly AdaptationPhase[] = ["train", "adapt", "finetune"];

/** Starts in phase train, with optimizers that have seen nothing. */
export class AdaptationTrainer {
  readonly policy: AdaptationPolicy;
  /** By what they train: encoder and actor, critic, adapt module, student's actor. */
  readonly optimizers: Readonly<Record<"teacher" | "critic" | "adapt" | "student", AdamW>>;
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
  }

  get state(): AdaptationTrainerState {
    return this.#state;
  }

  /** Goes on from a saved state; weights and optimizers are restored by whoever holds them. */
  restore(state: AdaptationTrainerState): void {
    this.#state = state;
    if (state.phase !== "train") this.policy.normalizer.freeze();
  }

  /**
   * Moves on to a later phase. Leaving train, the student takes over the teacher's standard deviation, which regression does not
   * teach, and the normalizer stops for good. The slow copy starts from the adapt module as it is. A student that PPO is about
   * to train starts with a fresh optimizer.
   */
  enter(phase: AdaptationPhase): void {
    const from = this.#state.phase;
    if (phase === from) return;
    if (order.indexOf(phase) < order.indexOf(from)) throw backwards(from, phase);
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
    policy.moveEma(this.#options.emaRate);
    policy.normalizer.update(rollout);
    this.#state = { phase, numSteps: numSteps + 1, numPhaseSteps: numPhaseSteps + 1 };
    return { metrics };
  }

  #learn(rollout: ControlRollout): Metrics {
    const { policy, optimizers } = this;
    const { phase, numSteps } = this.#state;
    const options = this.#options;
    const { acts, trainsPolicy, matchesActions } = phaseRules[phase];
    const random = (use: string) => new Random(deriveSeed(options.seed, use, numSteps));
    const batch = noGrad(() => batchOf(rollout, policy));
    const ppo = {
      policy,
      phase,
      policyOptimizer: acts === "actor" ? optimizers.teacher : optimizers.student,
      criticOptimizer: optimizers.critic,
      encoderPull: this.#encoderPull(),
    };
    const regression = {
      policy,
      adaptOptimizer: optimizers.adapt,
      imitationOptimizer: matchesActions ? optimizers.student : null,
    };
    return {
      ...(trainsPolicy && trainPolicy(ppo, rollout, batch, options, random("policy"))),
      ...trainAdapt(regression, batch, options, random("adapt")),
    };
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
    `phase "${phase}" comes before "${from}", where training is. Phases go ${order.join(", ")}; adapt may be left out.`,
    { from, phase },
  );
}

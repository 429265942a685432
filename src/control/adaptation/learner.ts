/** A run of teacher/student adaptation: its parts, built from a settled config, and the learner that a run drives. */
import { join } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import { deriveSeed } from "../../random/random.ts";
import { ControlCollector } from "../collector/collector.ts";
import type { ControlLearner } from "../control-learner.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { evaluateControl } from "../evaluation.ts";
import { readPolicyShape, savePolicy } from "../policy/policy-files.ts";
import { expectSameShape, loadTrainer, saveTrainer } from "../trainer-checkpoint.ts";
import { AdaptationActor } from "./actor.ts";
import type { AdaptationConfig } from "./config.ts";
import { numIterations, type PhasePlan, phaseAt, planPhases } from "./phase-plan.ts";
import { AdaptationPolicy, type AdaptationPolicyShape, adaptationPolicyKind } from "./policy/adaptation-policy.ts";
import { layoutOf } from "./policy/observation-layout.ts";
import { AdaptationTrainer, type AdaptationTrainerOptions } from "./trainer.ts";

/** Who acts, who learns, and the order of the phases. */
interface AdaptationParts {
  readonly actor: AdaptationActor;
  readonly collector: ControlCollector;
  readonly trainer: AdaptationTrainer;
  /** The settings of the trainer. */
  readonly options: AdaptationTrainerOptions;
  readonly shape: AdaptationPolicyShape;
  readonly plan: readonly PhasePlan[];
}

/** Builds the parts around environments, and starts these. One seed gives one run. */
export function buildAdaptation(config: AdaptationConfig, env: VecEnv): AdaptationParts {
  const { seed, algorithm, policy: networks } = config;
  const { numEnvs, observationSize, actions, observationGroups, rewardGroups } = env;
  if (actions.kind !== "continuous") {
    throw new RerollError(
      "INVALID_OPTION",
      "Adaptation needs continuous actions, whose means a student can imitate: this environment has discrete ones.",
    );
  }
  const shape = {
    ...networks,
    observationSize,
    layout: layoutOf(observationGroups),
    actionSize: actions.size,
    numRewardGroups: rewardGroups?.length ?? 1,
  };
  const policy = new AdaptationPolicy({ ...shape, seed: deriveSeed(seed, "weights") });
  const { type: _, entropy, encoderPull, ...settings } = algorithm;
  const options = {
    ...settings,
    entropyCoefficient: entropy,
    encoderPull: encoderPull && { weight: encoderPull.weight, iterations: encoderPull.rollouts },
    seed: deriveSeed(seed, "training"),
  };
  const trainer = new AdaptationTrainer(policy, options);
  const actor = new AdaptationActor(policy, { phase: "train", numEnvs, seed: deriveSeed(seed, "actions") });
  const collector = new ControlCollector(env, actor, { seed: deriveSeed(seed, "environments") });
  return { actor, collector, trainer, options, shape, plan: planPhases(config) };
}

/** Builds a run of adaptation around environments. */
export function adaptationLearner(config: AdaptationConfig, env: VecEnv): ControlLearner {
  const { actor, collector, trainer, shape, plan } = buildAdaptation(config, env);
  const { policy } = trainer;
  return {
    collector,
    numSteps: numIterations(plan),
    beforeStep: (step) => {
      const phase = phaseAt(plan, step);
      if (phase === null) return;
      trainer.enter(phase);
      actor.enter(phase);
    },
    train: (rollout) => trainer.step(rollout).metrics,
    saveModel: (folder) => savePolicy(policy, shape, folder),
    saveState: (folder) => saveTrainer(trainer, folder),
    loadCheckpoint: (folder) => {
      expectSameShape(shape, readPolicyShape(adaptationPolicyKind, join(folder, "model")), folder);
      loadTrainer(trainer, join(folder, "state"));
    },
    evaluate: (evaluated, evaluation) => {
      // The run is for the student. Before finetune it acts on what the adapt module infers, as in phase adapt.
      const phase = trainer.phase === "finetune" ? "finetune" : "adapt";
      const options = { phase, numEnvs: evaluated.numEnvs, seed: 0, choice: "mode" } as const;
      return evaluateControl(evaluated, new AdaptationActor(policy, options), evaluation);
    },
  };
}

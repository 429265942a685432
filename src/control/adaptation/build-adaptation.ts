/** From a settled config to the parts of a run of teacher/student adaptation. */

import { RerollError } from "../../errors/reroll-error.ts";
import { deriveSeed } from "../../random/random.ts";
import { ControlCollector } from "../collector/collector.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { AdaptationActor } from "./actor.ts";
import type { AdaptationConfig } from "./config.ts";
import type { PhasePlan } from "./phase-plan.ts";
import { AdaptationPolicy } from "./policy/adaptation-policy.ts";
import { layoutOf } from "./policy/observation-layout.ts";
import type { AdaptationPolicyShape } from "./policy/policy-files.ts";
import { AdaptationTrainer, type AdaptationTrainerOptions } from "./trainer.ts";

/** Who acts, who learns, and the order of the phases. */
export interface AdaptationParts {
  readonly actor: AdaptationActor;
  readonly collector: ControlCollector;
  readonly trainer: AdaptationTrainer;
  /** Those of the trainer. */
  readonly options: AdaptationTrainerOptions;
  readonly shape: AdaptationPolicyShape;
  readonly plan: readonly PhasePlan[];
}

/** Builds the parts around environments and starts these. One seed gives one run. */
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
  return { actor, collector, trainer, options, shape, plan: planOf(config) };
}

/** The phases in rollouts: for each the least number that takes all its steps. */
export function planOf({ loop, env }: AdaptationConfig): PhasePlan[] {
  const stepsPerRollout = loop.ticks * env.numEnvs;
  return (["train", "adapt", "finetune"] as const).map((phase) => ({
    phase,
    iterations: Math.ceil(loop[phase] / stepsPerRollout),
  }));
}

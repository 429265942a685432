/** A PPO run: its parts, built from a settled config, and the learner that a run drives. */
import { join } from "node:path";
import { deriveSeed } from "../../random/random.ts";
import { Generator } from "../../torch/random.ts";
import { ControlCollector } from "../collector/collector.ts";
import { PolicyActor } from "../collector/policy-actor.ts";
import { type ControlConfig, numRollouts } from "../control-config.ts";
import type { ControlLearner } from "../control-learner.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { evaluateControl } from "../evaluation.ts";
import { ControlPolicy, type ControlPolicyShape, controlPolicyKind, createCritic } from "../policy/control-policy.ts";
import { readPolicyShape, savePolicy } from "../policy/policy-files.ts";
import { expectSameShape, loadTrainer, saveTrainer } from "../trainer-checkpoint.ts";
import { ControlTrainer } from "./trainer.ts";

/** Who acts and who learns. */
interface PpoRunParts {
  readonly collector: ControlCollector;
  readonly trainer: ControlTrainer;
  readonly shape: ControlPolicyShape;
  readonly numSteps: number;
}

/** Builds the parts around environments, and starts these. One seed gives one run. */
export function buildPpo(config: ControlConfig, env: VecEnv): PpoRunParts {
  const { seed, algorithm } = config;
  const { numEnvs, observationSize } = env;
  const shape = shapeOf(config, env);
  const generator = new Generator(deriveSeed(seed, "weights"));
  const { hidden, activation, logStd } = config.policy;
  const policy = new ControlPolicy({ ...shape, logStd, generator });
  const critic = createCritic(observationSize, env.rewardGroups?.length ?? 1, { hidden, activation, generator });
  generator.dispose();
  const numSteps = numRollouts(config);
  const { type: _, schedule, criticLr, ...settings } = algorithm;
  const trainer = new ControlTrainer(policy, critic, {
    ...settings,
    criticLr: criticLr ?? settings.lr,
    schedule: schedule.type === "linear" ? { type: "linear", numSteps } : schedule,
    seed: deriveSeed(seed, "training"),
  });
  const actor = new PolicyActor(policy, { numEnvs, observationSize, seed: deriveSeed(seed, "actions") });
  const collector = new ControlCollector(env, actor, { seed: deriveSeed(seed, "environments") });
  return { collector, trainer, shape, numSteps };
}

/** Builds a PPO run around environments. */
export function ppoLearner(config: ControlConfig, env: VecEnv): ControlLearner {
  const { collector, trainer, shape, numSteps } = buildPpo(config, env);
  return {
    collector,
    numSteps,
    train: (rollout) => trainer.step(rollout).metrics,
    saveModel: (folder) => savePolicy(trainer.policy, shape, folder),
    saveState: (folder) => saveTrainer(trainer, folder),
    loadCheckpoint: (folder) => {
      expectSameShape(shape, readPolicyShape(controlPolicyKind, join(folder, "model")), folder);
      loadTrainer(trainer, join(folder, "state"));
    },
    evaluate: (evaluated, options) => {
      const { numEnvs, observationSize } = evaluated;
      const actor = new PolicyActor(trainer.policy, { numEnvs, observationSize, seed: 0, choice: "mode" });
      return evaluateControl(evaluated, actor, options);
    },
  };
}

function shapeOf({ policy }: ControlConfig, { observationSize, actions }: VecEnv): ControlPolicyShape {
  const { hidden, activation, normalizeObservations } = policy;
  return {
    observationSize,
    actions:
      actions.kind === "discrete"
        ? { kind: "discrete", count: actions.count }
        : { kind: "continuous", size: actions.size },
    hidden,
    activation,
    normalizeObservations,
  };
}

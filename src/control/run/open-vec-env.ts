/** From a settled config to the parts of a control run. */

import { RerollError } from "../../errors/reroll-error.ts";
import { deriveSeed } from "../../random/random.ts";
import { Generator } from "../../torch/random.ts";
import { ControlCollector } from "../collector/collector.ts";
import { PolicyActor } from "../collector/policy-actor.ts";
import { type ControlConfig, numRollouts } from "../control-config.ts";
import { createVecEnv } from "../envs/vec-catalog.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { ControlPolicy, createCritic } from "../policy/control-policy.ts";
import type { ControlPolicyShape } from "../policy/policy-files.ts";
import { ControlTrainer } from "../ppo/trainer.ts";

/** What acts, what learns, and the policy that both hold. */
export interface ControlParts {
  readonly collector: ControlCollector;
  readonly trainer: ControlTrainer;
  readonly shape: ControlPolicyShape;
  readonly numSteps: number;
}

/** Makes the environments. Close them when done. */
export async function openVecEnv({ env }: Pick<ControlConfig, "env">): Promise<VecEnv> {
  if (env.type !== "custom") return createVecEnv(env);
  const made = await env.create(env.numEnvs);
  if (made.numEnvs === env.numEnvs) return made;
  await made.close?.();
  throw new RerollError(
    "INVALID_OPTION",
    `env.create made ${made.numEnvs} environments for env.numEnvs ${env.numEnvs}. It gets the number, and must make as many.`,
  );
}

/** Builds the parts around environments and starts these. One seed gives one run. */
export function buildControl(config: ControlConfig, env: VecEnv): ControlParts {
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

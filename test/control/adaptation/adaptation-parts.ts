/** Small parts of teacher/student adaptation that belong together, for tests. */

import { AdaptationActor } from "../../../src/control/adaptation/actor.ts";
import type { AdaptModuleKind } from "../../../src/control/adaptation/policy/adapt-module.ts";
import { AdaptationPolicy } from "../../../src/control/adaptation/policy/adaptation-policy.ts";
import { layoutOf } from "../../../src/control/adaptation/policy/observation-layout.ts";
import type { AdaptationPhase } from "../../../src/control/adaptation/policy/phases.ts";
import { AdaptationTrainer, type AdaptationTrainerOptions } from "../../../src/control/adaptation/trainer.ts";
import { ControlCollector } from "../../../src/control/collector/collector.ts";
import { setNumThreads } from "../../../src/torch/memory.ts";
import { HiddenGainEnv } from "./hidden-gain-env.ts";

// Networks this small are fastest with one.
setNumThreads(1);

/** The settings of the guide, on little networks. */
export const trainerOptions: AdaptationTrainerOptions = {
  gamma: 0.99,
  lambda: 0.95,
  clip: 0.2,
  entropyCoefficient: 0.001,
  policyEpochs: 5,
  policyMinibatches: 4,
  targetKl: 0.01,
  maxGradNorm: 1,
  adaptEpochs: 2,
  adaptMinibatches: 4,
  imitateOn: "encoded",
  lr: 1e-3,
  emaRate: 0.04,
  encoderPull: null,
  seed: 5,
};

export interface PartsOptions {
  readonly numEnvs?: number;
  readonly latentSize?: number;
  readonly adaptModule?: AdaptModuleKind;
  readonly phase?: AdaptationPhase;
  readonly seed?: number;
  readonly isStaggered?: boolean;
  readonly trainer?: Partial<AdaptationTrainerOptions>;
}

export function buildParts({
  numEnvs = 6,
  latentSize = 8,
  adaptModule = { type: "gru" },
  phase = "train",
  seed = 1,
  isStaggered = true,
  trainer: changed = {},
}: PartsOptions = {}) {
  const env = new HiddenGainEnv(numEnvs, { isStaggered });
  const policy = new AdaptationPolicy({
    observationSize: env.observationSize,
    layout: layoutOf(env.observationGroups),
    actionSize: 1,
    numRewardGroups: 2,
    latentSize,
    actorHidden: [32],
    criticHidden: [32],
    adaptModule,
    logStd: -0.5,
    normalizerDecay: 0.9999,
    seed,
  });
  const actor = new AdaptationActor(policy, { phase, numEnvs, seed });
  const collector = new ControlCollector(env, actor, { seed });
  const trainer = new AdaptationTrainer(policy, { ...trainerOptions, ...changed });
  trainer.enter(phase);
  return { env, policy, actor, collector, trainer };
}

/** PPO as a run of control drives it. */
import { join } from "node:path";
import { PolicyActor } from "../collector/policy-actor.ts";
import type { ControlConfig } from "../control-config.ts";
import type { ControlLearner } from "../control-learner.ts";
import { runControlLoop } from "../control-loop.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { evaluateControl } from "../evaluation.ts";
import { readControlPolicyShape, saveControlPolicy } from "../policy/policy-files.ts";
import { expectSameShape } from "../run/expect-same-shape.ts";
import { buildControl } from "../run/open-vec-env.ts";
import { loadControlTrainer, saveControlTrainer } from "../trainer-checkpoint.ts";

/** Builds it around environments and starts these. */
export function ppoLearner(config: ControlConfig, env: VecEnv): ControlLearner {
  const { collector, trainer, shape, numSteps } = buildControl(config, env);
  return {
    collector,
    train: (rollout) => trainer.step(rollout).metrics,
    loop: (parts, start) => runControlLoop(parts, start, { numSteps, ticksPerStep: config.loop.ticks }),
    saveModel: (folder) => saveControlPolicy(trainer.policy, shape, folder),
    saveState: (folder) => saveControlTrainer(trainer, folder),
    loadCheckpoint: (folder) => {
      expectSameShape(shape, readControlPolicyShape(join(folder, "model")), folder);
      loadControlTrainer(trainer, join(folder, "state"));
    },
    evaluate: (evaluated, options) => {
      const { numEnvs, observationSize } = evaluated;
      const actor = new PolicyActor(trainer.policy, { numEnvs, observationSize, seed: 0, choice: "mode" });
      return evaluateControl(evaluated, actor, options);
    },
  };
}

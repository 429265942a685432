/** Teacher/student adaptation as a run of control drives it. */
import { join } from "node:path";
import type { ControlLearner } from "../control-learner.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { evaluateControl } from "../evaluation.ts";
import { expectSameShape } from "../run/expect-same-shape.ts";
import { AdaptationActor } from "./actor.ts";
import { loadAdaptationTrainer, saveAdaptationTrainer } from "./adaptation-checkpoint.ts";
import { buildAdaptation } from "./build-adaptation.ts";
import type { AdaptationConfig } from "./config.ts";
import { runAdaptationLoop } from "./phase-plan.ts";
import { readAdaptationPolicyShape, saveAdaptationPolicy } from "./policy/policy-files.ts";

/** Builds it around environments and starts these. */
export function adaptationLearner(config: AdaptationConfig, env: VecEnv): ControlLearner {
  const { actor, collector, trainer, shape, plan } = buildAdaptation(config, env);
  const { policy } = trainer;
  return {
    collector,
    train: (rollout) => trainer.step(rollout).metrics,
    loop: (parts, start) =>
      runAdaptationLoop(
        {
          ...parts,
          enter: (phase) => {
            trainer.enter(phase);
            actor.enter(phase);
          },
        },
        start,
        { plan, ticksPerStep: config.loop.ticks },
      ),
    saveModel: (folder) => saveAdaptationPolicy(policy, shape, folder),
    saveState: (folder) => saveAdaptationTrainer(trainer, folder),
    loadCheckpoint: (folder) => {
      expectSameShape(shape, readAdaptationPolicyShape(join(folder, "model")), folder);
      loadAdaptationTrainer(trainer, join(folder, "state"));
    },
    evaluate: (evaluated, evaluation) => {
      // The student, which is what the run is for: before finetune, with the adapt module as it is.
      const phase = trainer.state.phase === "finetune" ? "finetune" : "adapt";
      const options = { phase, numEnvs: evaluated.numEnvs, seed: 0, choice: "mode" } as const;
      return evaluateControl(evaluated, new AdaptationActor(policy, options), evaluation);
    },
  };
}

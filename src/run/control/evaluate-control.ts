/** Evaluation alone: a saved control policy and a run file in, the metrics of its episodes out. Trains and writes nothing. */
import type { Metrics } from "../../flow/metrics.ts";
import { loadControlPolicy } from "../../models/control/policy-files.ts";
import { deriveSeed } from "../../random/random.ts";
import { evaluateControl } from "../../rollout/control-evaluation.ts";
import { PolicyActor } from "../../rollout/control-policy-actor.ts";
import { setNumThreads } from "../../torch/memory.ts";
import { openVecEnv } from "./build-control.ts";
import { type ControlConfig, controlConfig } from "./control-config.ts";

/** The metrics of one validation. A run file without a `validation` gets that key's defaults. */
export async function evaluateControlRun(modelFolder: string, config: ControlConfig): Promise<Metrics> {
  const { episodes } = config.validation ?? controlConfig.shape.validation.unwrap().unwrap().parse({});
  const { seed } = config;
  setNumThreads(config.threads);
  const { policy } = loadControlPolicy(modelFolder);
  const env = await openVecEnv(config);
  try {
    const { numEnvs, observationSize } = env;
    const actor = new PolicyActor(policy, { numEnvs, observationSize, seed, choice: "mode" });
    return evaluateControl(env, actor, { episodes, seed: deriveSeed(seed, "validation") });
  } finally {
    await env.close?.();
  }
}

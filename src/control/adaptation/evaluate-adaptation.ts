/** Evaluation alone: a saved student and a run file in, the metrics of its episodes out. Trains and writes nothing. */
import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed } from "../../random/random.ts";
import { setNumThreads } from "../../torch/memory.ts";
import { evaluateControl } from "../evaluation.ts";
import { openVecEnv } from "../run/open-vec-env.ts";
import { AdaptationActor } from "./actor.ts";
import { type AdaptationConfig, adaptationConfig } from "./config.ts";
import { loadAdaptationPolicy } from "./policy/policy-files.ts";

/** The metrics of one validation. A run file without a `validation` gets that key's defaults. */
export async function evaluateAdaptationRun(modelFolder: string, config: AdaptationConfig): Promise<Metrics> {
  const { episodes } = config.validation ?? adaptationConfig.shape.validation.unwrap().unwrap().parse({});
  setNumThreads(config.threads);
  const policy = loadAdaptationPolicy(modelFolder);
  const env = await openVecEnv(config);
  try {
    const actor = new AdaptationActor(policy, { phase: "finetune", numEnvs: env.numEnvs, seed: 0, choice: "mode" });
    return evaluateControl(env, actor, { episodes, seed: deriveSeed(config.seed, "validation") });
  } finally {
    await env.close?.();
  }
}

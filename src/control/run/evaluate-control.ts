/** Evaluation alone: a saved control policy and a run file in, the metrics of its episodes out. Trains and writes nothing. */

import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed } from "../../random/random.ts";
import { setNumThreads } from "../../torch/memory.ts";
import type { AdaptationConfig } from "../adaptation/config.ts";
import { evaluateAdaptationRun } from "../adaptation/evaluate-adaptation.ts";
import { PolicyActor } from "../collector/policy-actor.ts";
import { type ControlConfig, controlConfig } from "../control-config.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { evaluateControl } from "../evaluation.ts";
import { type ControlPolicyShape, loadControlPolicy } from "../policy/policy-files.ts";
import { openVecEnv } from "./open-vec-env.ts";

/** The metrics of one validation. A run file without a `validation` gets that key's defaults. */
export async function evaluateControlRun(
  modelFolder: string,
  config: ControlConfig | AdaptationConfig,
): Promise<Metrics> {
  if (config.kind === "adaptation") return evaluateAdaptationRun(modelFolder, config);
  const { episodes } = config.validation ?? controlConfig.shape.validation.unwrap().unwrap().parse({});
  const { seed } = config;
  setNumThreads(config.threads);
  const { policy, shape } = loadControlPolicy(modelFolder);
  const env = await openVecEnv(config);
  try {
    expectFits(shape, env, config.env.type);
    const { numEnvs, observationSize } = env;
    const actor = new PolicyActor(policy, { numEnvs, observationSize, seed, choice: "mode" });
    return evaluateControl(env, actor, { episodes, seed: deriveSeed(seed, "validation") });
  } finally {
    await env.close?.();
  }
}

function expectFits(shape: ControlPolicyShape, env: VecEnv, name: string): void {
  const [trained, found] = [spacesOf(shape), spacesOf(env)];
  if (trained === found) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `The policy does not fit env "${name}": it was trained on ${trained}, and the environment has ${found}. Give the run file ` +
      "that it was trained with as --run-file.",
  );
}

function spacesOf({ observationSize, actions }: Pick<VecEnv, "observationSize"> & Pick<ControlPolicyShape, "actions">) {
  const choice = actions.kind === "discrete" ? `one of ${actions.count} actions` : `actions of ${actions.size} numbers`;
  return `observations of ${observationSize} numbers and ${choice}`;
}

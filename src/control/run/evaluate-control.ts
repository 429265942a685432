/** Evaluation without training: a saved policy and a run file in, the metrics of its episodes out. Writes nothing. */

import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed } from "../../random/random.ts";
import { setNumThreads } from "../../torch/memory.ts";
import { AdaptationActor } from "../adaptation/actor.ts";
import type { AnyControlConfig } from "../adaptation/config.ts";
import { adaptationPolicyKind } from "../adaptation/policy/adaptation-policy.ts";
import type { ControlActor } from "../collector/collector.ts";
import { PolicyActor } from "../collector/policy-actor.ts";
import { controlConfig } from "../control-config.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { evaluateControl } from "../evaluation.ts";
import { type ActionSize, loadControlPolicy } from "../policy/control-policy.ts";
import { loadPolicy } from "../policy/policy-files.ts";
import { openVecEnv } from "./open-vec-env.ts";

/** The metrics of one validation. A run file without `validation` gets that key's defaults. */
export async function evaluateControlRun(modelFolder: string, config: AnyControlConfig): Promise<Metrics> {
  const { episodes } = config.validation ?? controlConfig.shape.validation.unwrap().unwrap().parse({});
  setNumThreads(config.threads);
  const { spaces, actorIn } = config.kind === "adaptation" ? savedStudent(modelFolder) : savedPolicy(modelFolder);
  const env = await openVecEnv(config);
  try {
    expectFits(spaces, env, config.env.type);
    return evaluateControl(env, actorIn(env), { episodes, seed: deriveSeed(config.seed, "validation") });
  } finally {
    await env.close?.();
  }
}

/** A policy from a folder: what it was trained on, and an actor of its most likely actions. */
interface SavedActor {
  readonly spaces: Spaces;
  readonly actorIn: (env: VecEnv) => ControlActor;
}

function savedPolicy(folder: string): SavedActor {
  const { policy, shape } = loadControlPolicy(folder);
  return {
    spaces: shape,
    actorIn: ({ numEnvs, observationSize }) =>
      new PolicyActor(policy, { numEnvs, observationSize, seed: 0, choice: "mode" }),
  };
}

function savedStudent(folder: string): SavedActor {
  const { policy, shape } = loadPolicy(adaptationPolicyKind, folder);
  const { observationSize, actionSize } = shape;
  return {
    spaces: { observationSize, actions: { kind: "continuous", size: actionSize } },
    actorIn: ({ numEnvs }) => new AdaptationActor(policy, { phase: "finetune", numEnvs, seed: 0, choice: "mode" }),
  };
}

interface Spaces {
  readonly observationSize: number;
  readonly actions: ActionSize;
}

function expectFits(spaces: Spaces, env: VecEnv, name: string): void {
  const [trained, found] = [describe(spaces), describe(env)];
  if (trained === found) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `The policy does not fit env "${name}": it was trained on ${trained}, and the environment has ${found}. Give the run file ` +
      "that it was trained with as --run-file.",
  );
}

function describe({ observationSize, actions }: Spaces): string {
  const choice = actions.kind === "discrete" ? `one of ${actions.count} actions` : `actions of ${actions.size} numbers`;
  return `observations of ${observationSize} numbers and ${choice}`;
}

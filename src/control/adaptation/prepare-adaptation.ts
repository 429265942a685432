/** From what was written to a settled run of adaptation and its plan. Nothing expensive happens here. */
import { parseOptions } from "../../errors/parse-options.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { parseOverride } from "../../run/apply-overrides.ts";
import type { RawRun } from "../../run/load-run-file.ts";
import { joinRun, type Origins, overridesOf, type RunEnvironment } from "../../run/resolve-run.ts";
import { planOf } from "./build-adaptation.ts";
import { type AdaptationConfig, adaptationConfig } from "./config.ts";

/** A run of adaptation with every key settled, and why each is what it is. */
export interface ResolvedAdaptation {
  readonly config: AdaptationConfig;
  readonly origins: Origins;
}

/** Whether what a run file holds is a run of adaptation. */
export function isAdaptationRun(raw: RawRun): boolean {
  return raw.kind === "adaptation";
}

/** Applies `--set` words and environment variables to a run file, and checks the whole. */
export function resolveAdaptation(
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment,
): ResolvedAdaptation {
  // The device of language models: networks of control are too small for anything but the CPU.
  const variables = overridesOf(environment).filter(({ origin }) => origin !== "REROLL_DEVICE");
  const { written, origins } = joinRun(adaptationConfig, file, sets.map(parseOverride), variables);
  const config = parseOptions(adaptationConfig, written, "");
  expectSequences(config);
  return { config, origins };
}

/** A minibatch of the regression is whole sequences, of which there is one per environment. */
function expectSequences({ algorithm, env }: AdaptationConfig): void {
  const { adaptMinibatches } = algorithm;
  if (adaptMinibatches <= env.numEnvs) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `algorithm.adaptMinibatches is ${adaptMinibatches}, and env.numEnvs is ${env.numEnvs}: each part needs the sequence of one environment at least. Lower adaptMinibatches, or raise numEnvs.`,
  );
}

/** Rollouts of a run, over all phases. */
export function numAdaptationRollouts(config: AdaptationConfig): number {
  return planOf(config).reduce((sum, { iterations }) => sum + iterations, 0);
}

/** The arithmetic of a run, in words. */
export function planAdaptation(config: AdaptationConfig): readonly string[] {
  const { loop, algorithm, env } = config;
  const rows = loop.ticks * env.numEnvs;
  const { policyEpochs, policyMinibatches, adaptEpochs, adaptMinibatches } = algorithm;
  const phases = planOf(config)
    .filter(({ iterations }) => iterations > 0)
    .map(({ phase, iterations }) => `${phase} ${iterations} rollouts = ${iterations * rows} steps`);
  return [
    `${loop.ticks} ticks x ${env.numEnvs} environments = ${rows} steps per rollout; ${phases.join(", ")}`,
    `${policyEpochs * policyMinibatches} updates of PPO on ${Math.ceil(rows / policyMinibatches)} steps and ` +
      `${adaptEpochs * adaptMinibatches} of the regression on ${Math.ceil(env.numEnvs / adaptMinibatches)} sequences per rollout`,
  ];
}

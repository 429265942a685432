/** From a run file and the words of the command line to a settled run and its plan. Nothing expensive happens here. */
import type { z } from "zod";
import { expectPackage } from "../../errors/optional-package.ts";
import { parseOptions } from "../../errors/parse-options.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { parseOverride } from "../../run/apply-overrides.ts";
import { loadRunFile, type RawRun } from "../../run/load-run-file.ts";
import { joinRun, type Origins, overridesOf, type RunEnvironment } from "../../run/resolve-run.ts";
import { type AdaptationConfig, type AnyControlConfig, adaptationConfig } from "../adaptation/config.ts";
import { numIterations, planPhases } from "../adaptation/phase-plan.ts";
import { type ControlConfig, controlConfig, numRollouts } from "../control-config.ts";
import { mujocoEnvOptions } from "../envs/mujoco/create-mujoco-env.ts";

/** A run with every key settled, and where each value comes from. */
export interface ResolvedControl<Config extends AnyControlConfig = AnyControlConfig> {
  readonly config: Config;
  readonly origins: Origins;
}

/** Whether a run file describes a control run: PPO or adaptation. */
export function isControlRun({ kind }: RawRun): boolean {
  return kind === "control" || kind === "adaptation";
}

/** Loads a run file, applies `--set` words and environment variables, and checks the whole. */
export async function readControlFile(
  path: string,
  sets: readonly string[],
  environment: RunEnvironment,
): Promise<ResolvedControl> {
  return resolveAnyControl(await loadRunFile(path), sets, environment);
}

/** Settles a run file of either kind that has been loaded. */
export function resolveAnyControl(file: RawRun, sets: readonly string[], environment: RunEnvironment): ResolvedControl {
  return file.kind === "adaptation"
    ? resolveAdaptation(file, sets, environment)
    : resolveControl(file, sets, environment);
}

/** Settles a PPO run. */
export function resolveControl(
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment,
): ResolvedControl<ControlConfig> {
  const resolved = settle(controlConfig, file, sets, environment);
  expectFullMinibatches(resolved.config);
  return resolved;
}

/** Settles a run of adaptation. */
export function resolveAdaptation(
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment,
): ResolvedControl<AdaptationConfig> {
  const resolved = settle(adaptationConfig, file, sets, environment);
  expectSequences(resolved.config);
  return resolved;
}

function settle<Config extends AnyControlConfig>(
  schema: z.ZodObject & z.ZodType<Config>,
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment,
): ResolvedControl<Config> {
  // Devices and ranks are for language models: the networks of control are too small for anything but one CPU.
  const variables = overridesOf(environment).filter(({ origin }) => origin === "REROLL_HOME");
  const { written, origins } = joinRun(schema, file, sets.map(parseOverride), variables);
  const config = parseOptions(schema, written, "");
  if (isMujoco(config.env)) expectPackage("@mujoco/mujoco", `env.type ${JSON.stringify(config.env.type)}`);
  return { config, origins };
}

function isMujoco({ type }: { readonly type: string }): boolean {
  return mujocoEnvOptions.options.some(({ shape }) => shape.type.safeParse(type).success);
}

/** A minibatch of one row has no standard deviation to divide its advantage by. */
function expectFullMinibatches({ loop, env, algorithm: { minibatches, normalizeAdvantages } }: ControlConfig): void {
  const numRows = loop.ticks * env.numEnvs;
  const fewest = normalizeAdvantages ? 2 : 1;
  if (minibatches * fewest <= numRows) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `algorithm.minibatches is ${minibatches}, but a rollout has ${numRows} rows: loop.ticks ${loop.ticks} times ` +
      `${env.numEnvs} environments. A minibatch needs at least ${fewest === 1 ? "one row" : "two rows to normalize advantages over"}: ` +
      `use at most ${Math.floor(numRows / fewest)} minibatches.`,
  );
}

/** A minibatch of the regression consists of whole sequences, and there is one sequence per environment. */
function expectSequences({ algorithm: { adaptMinibatches }, env: { numEnvs } }: AdaptationConfig): void {
  if (adaptMinibatches <= numEnvs) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `algorithm.adaptMinibatches is ${adaptMinibatches}, and env.numEnvs is ${numEnvs}: each minibatch needs the sequence of at ` +
      "least one environment. Lower adaptMinibatches, or raise numEnvs.",
  );
}

/** Training steps of a run of either kind, with one rollout each. */
export function numControlSteps(config: AnyControlConfig): number {
  return config.kind === "adaptation" ? numIterations(planPhases(config)) : numRollouts(config);
}

/** The arithmetic of a run, in words. */
export function planControl(config: AnyControlConfig): readonly string[] {
  const { loop, env } = config;
  const rows = loop.ticks * env.numEnvs;
  const rollout = `${loop.ticks} ticks x ${env.numEnvs} environments = ${rows} steps per rollout`;
  if (config.kind === "adaptation") return planAdaptation(config, rollout, rows);
  const numSteps = numRollouts(config);
  const { epochs, minibatches } = config.algorithm;
  return [
    `${rollout}; ${numSteps} rollouts = ${numSteps * rows} steps`,
    `${epochs} epochs x ${minibatches} minibatches of ${sizesOf(rows, minibatches)} = ${epochs * minibatches} updates per rollout`,
  ];
}

function planAdaptation(config: AdaptationConfig, rollout: string, rows: number): readonly string[] {
  const { policyEpochs, policyMinibatches, adaptEpochs, adaptMinibatches } = config.algorithm;
  const phases = planPhases(config)
    .filter(({ iterations }) => iterations > 0)
    .map(({ phase, iterations }) => `${phase} ${iterations} rollouts = ${iterations * rows} steps`);
  return [
    `${rollout}; ${phases.join(", ")}`,
    `${policyEpochs * policyMinibatches} updates of PPO on ${Math.ceil(rows / policyMinibatches)} steps and ` +
      `${adaptEpochs * adaptMinibatches} of the regression on ${Math.ceil(config.env.numEnvs / adaptMinibatches)} sequences per rollout`,
  ];
}

function sizesOf(numRows: number, minibatches: number): string {
  const smallest = Math.floor(numRows / minibatches);
  return numRows % minibatches === 0 ? `${smallest}` : `${smallest} or ${smallest + 1}`;
}

/** From the words of the command line to a settled control run and its plan. Nothing expensive happens here. */
import { parseOptions } from "../../errors/parse-options.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { parseOverride } from "../../run/apply-overrides.ts";
import { loadRunFile, type RawRun } from "../../run/load-run-file.ts";
import { joinRun, type Origins, overridesOf, type RunEnvironment } from "../../run/resolve-run.ts";
import type { AdaptationConfig } from "../adaptation/config.ts";
import {
  isAdaptationRun,
  planAdaptation,
  type ResolvedAdaptation,
  resolveAdaptation,
} from "../adaptation/prepare-adaptation.ts";
import { type ControlConfig, controlConfig, numRollouts } from "../control-config.ts";

/** A control run with every key settled, and why each is what it is. */
export interface ResolvedControl {
  readonly config: ControlConfig;
  readonly origins: Origins;
}

/** Whether what a run file holds is a control run, adaptation among them. */
export function isControlRun(raw: RawRun): boolean {
  return raw.kind === "control" || isAdaptationRun(raw);
}

/** Loads a run file, applies `--set` words and environment variables, and checks the whole. */
export async function readControlFile(
  path: string,
  sets: readonly string[],
  environment: RunEnvironment,
): Promise<ResolvedControl | ResolvedAdaptation> {
  return resolveAnyControl(await loadRunFile(path), sets, environment);
}

/** The same for a run file that is loaded, of PPO or of adaptation. */
export function resolveAnyControl(
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment,
): ResolvedControl | ResolvedAdaptation {
  return isAdaptationRun(file) ? resolveAdaptation(file, sets, environment) : resolveControl(file, sets, environment);
}

/** The same for one of PPO. */
export function resolveControl(file: RawRun, sets: readonly string[], environment: RunEnvironment): ResolvedControl {
  // The device of language models: networks of control are too small for anything but the CPU.
  const variables = overridesOf(environment).filter(({ origin }) => origin !== "REROLL_DEVICE");
  const { written, origins } = joinRun(controlConfig, file, sets.map(parseOverride), variables);
  const config = parseOptions(controlConfig, written, "");
  expectFullMinibatches(config);
  return { config, origins };
}

/** One row has no deviation to divide its advantage by. */
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

/** The arithmetic of a run, in words. */
export function planControl(config: ControlConfig | AdaptationConfig): readonly string[] {
  if (config.kind === "adaptation") return planAdaptation(config);
  const { loop, algorithm, env } = config;
  const rows = loop.ticks * env.numEnvs;
  const numSteps = numRollouts(config);
  const { epochs, minibatches } = algorithm;
  return [
    `${loop.ticks} ticks x ${env.numEnvs} environments = ${rows} steps per rollout; ${numSteps} rollouts = ${numSteps * rows} steps`,
    `${epochs} epochs x ${minibatches} minibatches of ${sizesOf(rows, minibatches)} = ${epochs * minibatches} updates per rollout`,
  ];
}

function sizesOf(numRows: number, minibatches: number): string {
  const smallest = Math.floor(numRows / minibatches);
  return numRows % minibatches === 0 ? `${smallest}` : `${smallest} or ${smallest + 1}`;
}

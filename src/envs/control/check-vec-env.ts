/**
 * Tells an author what their vector environment breaks.
 *
 * In: a way to make it. Out: findings in words, none where all is well; each rule is reported once, with the first example. Plays
 * random actions on two environments with one seed, and compares.
 */
import { Random } from "../../random/random.ts";
import type { EnvFinding } from "../check-env.ts";
import type { ActionSpace, VecEnv, VecStep } from "../vec-env.ts";

/** How long to look, and from which seed. */
export interface CheckVecEnvOptions {
  /** Default 0. */
  readonly seed?: number;
  /** Default 2,000. Some episode must end within them. */
  readonly numSteps?: number;
}

type Report = (rule: string, text: string) => void;

/** Plays two environments and closes them. What they throw is a finding too. */
export async function checkVecEnv(
  makeEnv: () => VecEnv | Promise<VecEnv>,
  { seed = 0, numSteps = 2000 }: CheckVecEnvOptions = {},
): Promise<EnvFinding[]> {
  const found = new Map<string, string>();
  const report: Report = (rule, text) => {
    if (!found.has(rule)) found.set(rule, text);
  };
  const env = await makeEnv();
  const twin = await makeEnv();
  try {
    checkSpaces(env, report);
    if (found.size === 0) play(env, twin, seed, numSteps, report);
  } catch (error) {
    report("throws", `Playing random actions throws: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    await env.close?.();
    await twin.close?.();
  }
  return [...found].map(([rule, text]) => ({ rule, text }));
}

function checkSpaces({ numEnvs, observationSize, actions }: VecEnv, report: Report): void {
  for (const [name, count] of Object.entries({ numEnvs, observationSize, [sizeName(actions)]: numbersOf(actions) })) {
    if (!Number.isInteger(count) || count < 1)
      report("sizes", `${name} is ${count}. It must be a whole number above 0.`);
  }
  if (actions.kind === "continuous" && !(actions.low < actions.high)) {
    report("sizes", `actions.low is ${actions.low} and actions.high ${actions.high}. The first must be the smaller.`);
  }
}

function play(env: VecEnv, twin: VecEnv, seed: number, numSteps: number, report: Report): void {
  const { numEnvs, observationSize, actions } = env;
  const random = new Random(seed);
  const first = env.reset(seed).observations_NO;
  expectLength("reset's observations_NO", first, numEnvs * observationSize, report);
  expectFinite("reset's observations_NO", first, report);
  expectEqual("reset", [first], [twin.reset(seed).observations_NO], report);
  let numEnded = 0;
  for (let step = 0; step < numSteps; step++) {
    const actions_NA = drawActions(actions, numEnvs, random);
    const given = Float32Array.from(actions_NA);
    const result = env.step(actions_NA);
    expectEqual("step", arraysOf(result), arraysOf(twin.step(Float32Array.from(given))), report);
    if (!isEqual(actions_NA, given)) report("actions", "step changed the array of actions. It belongs to the caller.");
    numEnded += checkStep(result, numEnvs, observationSize, report);
  }
  const again = env.reset(seed).observations_NO;
  expectEqual("a second reset with the same seed", [again], [twin.reset(seed).observations_NO], report);
  if (numEnded === 0) {
    report("ends", `No episode of random actions had ended after ${numSteps} steps. Give episodes a limit.`);
  }
}

/** Returns how many episodes ended. */
function checkStep(result: VecStep, numEnvs: number, observationSize: number, report: Report): number {
  const { observations_NO, rewards_N, terminated_N, truncated_N, finalObservations_NO } = result;
  expectLength("observations_NO", observations_NO, numEnvs * observationSize, report);
  expectLength("finalObservations_NO", finalObservations_NO, numEnvs * observationSize, report);
  expectLength("rewards_N", rewards_N, numEnvs, report);
  expectLength("terminated_N", terminated_N, numEnvs, report);
  expectLength("truncated_N", truncated_N, numEnvs, report);
  expectFinite("observations_NO", observations_NO, report);
  expectFinite("rewards_N", rewards_N, report);
  let numEnded = 0;
  for (let n = 0; n < numEnvs; n++) {
    if (terminated_N[n]! > 1 || truncated_N[n]! > 1) {
      report(
        "flags",
        `Environment ${n} has terminated ${terminated_N[n]} and truncated ${truncated_N[n]}. Use 0 and 1.`,
      );
    }
    if (terminated_N[n] === 0 && truncated_N[n] === 0) continue;
    numEnded++;
    const row = (array: Float32Array) => array.subarray(n * observationSize, (n + 1) * observationSize);
    expectFinite("finalObservations_NO", row(finalObservations_NO), report);
    if (isEqual(row(finalObservations_NO), row(observations_NO))) {
      report(
        "autoreset",
        `Environment ${n} ended, and its observation is still the last one. Reset it at once: observations_NO then holds the first observation of the next episode.`,
      );
    }
  }
  return numEnded;
}

function drawActions(actions: ActionSpace, numEnvs: number, random: Random): Float32Array {
  if (actions.kind === "discrete") return Float32Array.from({ length: numEnvs }, () => random.integer(actions.count));
  const { size, low, high } = actions;
  return Float32Array.from({ length: numEnvs * size }, () => low + (high - low) * random.uniform());
}

function numbersOf(actions: ActionSpace): number {
  return actions.kind === "discrete" ? actions.count : actions.size;
}

function sizeName(actions: ActionSpace): string {
  return actions.kind === "discrete" ? "actions.count" : "actions.size";
}

function arraysOf({ observations_NO, rewards_N, terminated_N, truncated_N }: VecStep): ArrayLike<number>[] {
  return [observations_NO, rewards_N, terminated_N, truncated_N];
}

function expectLength(name: string, array: ArrayLike<number>, length: number, report: Report): void {
  if (array.length !== length) report("shapes", `${name} has ${array.length} values. It must have ${length}.`);
}

function expectFinite(name: string, array: Float32Array, report: Report): void {
  const index = array.findIndex((value) => !Number.isFinite(value));
  if (index !== -1) report("finite", `${name} has ${array[index]} at ${index}. All values must be finite.`);
}

function expectEqual(
  what: string,
  left: readonly ArrayLike<number>[],
  right: readonly ArrayLike<number>[],
  report: Report,
) {
  if (left.every((array, i) => isEqual(array, right[i]!))) return;
  report("deterministic", `Two environments with one seed differ after ${what}. Draw chance only from the seed.`);
}

function isEqual(left: ArrayLike<number>, right: ArrayLike<number>): boolean {
  if (left.length !== right.length) return false;
  for (let i = 0; i < left.length; i++) if (!Object.is(left[i], right[i])) return false;
  return true;
}

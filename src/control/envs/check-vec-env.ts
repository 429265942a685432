/**
 * Tells authors which rules of the contract their vector environment breaks.
 *
 * In: a function that creates it. Out: findings in words, none if all is well. Each rule is reported once, with the first
 * example. Plays random actions in two environments with the same seed and compares them.
 */

import type { EnvFinding } from "../../envs/check-env.ts";
import { Random } from "../../random/random.ts";
import type { ActionSpace, VecEnv, VecStep } from "./vec-env.ts";

/** The length of the check, and its seed. */
interface CheckVecEnvOptions {
  /** Default 0. */
  readonly seed?: number;
  /** Steps to play. Default 2,000. At least one episode must end within them. */
  readonly numSteps?: number;
}

type Report = (rule: string, text: string) => void;

/** Plays two environments and closes them. An error they throw is a finding too. */
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

function checkSpaces(env: VecEnv, report: Report): void {
  const { numEnvs, observationSize, actions, observationGroups = {} } = env;
  for (const [name, count] of Object.entries({ numEnvs, observationSize, [sizeName(actions)]: numbersOf(actions) })) {
    if (!Number.isInteger(count) || count < 1)
      report("sizes", `${name} is ${count}. It must be a whole number above 0.`);
  }
  for (const [name, { start, size }] of Object.entries(observationGroups)) {
    if (start >= 0 && size > 0 && start + size <= observationSize) continue;
    report("sizes", `Observation group "${name}" is ${size} numbers from ${start}, of ${observationSize} in all.`);
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
    checkRewardParts(env, result, report);
  }
  checkSave(env, twin, random, report);
  const again = env.reset(seed).observations_NO;
  expectEqual("a second reset with the same seed", [again], [twin.reset(seed).observations_NO], report);
  if (numEnded === 0) {
    report("ends", `No episode of random actions had ended after ${numSteps} steps. Give episodes a limit.`);
  }
}

/** Saves one environment, and checks that the other continues from it after a trip through JSON. */
function checkSave(env: VecEnv, twin: VecEnv, random: Random, report: Report): void {
  if ((env.save === undefined) !== (env.restore === undefined)) {
    report("save", "It has one of save and restore. Give both, or neither.");
  }
  if (env.save === undefined || twin.restore === undefined) return;
  const saved = env.save();
  for (let step = 0; step < 3; step++) twin.step(drawActions(env.actions, env.numEnvs, random));
  twin.restore(JSON.parse(JSON.stringify(saved)));
  for (let step = 0; step < NUM_STEPS_AFTER_SAVE; step++) {
    const actions_NA = drawActions(env.actions, env.numEnvs, random);
    const [left, right] = [arraysOf(env.step(actions_NA)), arraysOf(twin.step(actions_NA))];
    if (left.every((array, i) => isEqual(array, right[i]!))) continue;
    report("save", "After restore(save()) steps differ. Save everything they depend on, including the random stream.");
  }
}

/** Enough steps for an episode to end and the next one to start. */
const NUM_STEPS_AFTER_SAVE = 200;

function checkRewardParts(
  { numEnvs, rewardGroups }: VecEnv,
  { rewards_N, rewardParts_NG }: VecStep,
  report: Report,
): void {
  if (rewardGroups === undefined) return;
  const G = rewardGroups.length;
  if (rewardParts_NG?.length !== numEnvs * G) {
    report(
      "rewards",
      `rewardParts_NG has ${rewardParts_NG?.length ?? "no"} values. It must have ${numEnvs * G}: ${G} per copy.`,
    );
    return;
  }
  for (let n = 0; n < numEnvs; n++) {
    const sum = rewardParts_NG.subarray(n * G, (n + 1) * G).reduce((total, part) => total + part, 0);
    if (Math.abs(sum - rewards_N[n]!) <= 1e-4 * Math.max(1, Math.abs(rewards_N[n]!))) continue;
    report(
      "rewards",
      `The parts of environment ${n}'s reward sum to ${sum}, and its reward is ${rewards_N[n]}. They must be equal.`,
    );
  }
}

/** Returns the number of episodes that ended. */
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

import { expect, test } from "vitest";
import type { VecEnv, VecStep } from "../envs/vec-env.ts";
import { type ControlActor, ControlCollector } from "./collector.ts";

const good: VecStep = {
  observations_NO: Float32Array.of(1, 2, 3, 4),
  rewards_N: Float32Array.of(1, 1),
  terminated_N: Uint8Array.of(0, 0),
  truncated_N: Uint8Array.of(0, 1),
  finalObservations_NO: Float32Array.of(Number.NaN, 0, 5, 6),
};

const actor: ControlActor = {
  carrySize: 0,
  act: () => ({ actions_NA: new Float32Array(2), logprobs_N: new Float32Array(2) }),
  carry_NC: () => new Float32Array(0),
  save: () => null,
  restore() {},
};

/** Collects a tick from two copies that give this. */
function collect(step: Partial<VecStep>, env: Partial<VecEnv> = {}) {
  const broken: VecEnv = {
    ...{ numEnvs: 2, observationSize: 2, actions: { kind: "discrete", count: 2 } },
    reset: () => good,
    step: () => ({ ...good, ...step }),
    ...env,
  };
  return new ControlCollector(broken, actor, { seed: 1 }).collect(1, 0);
}

test("what an environment gives is taken where it is whole, whatever stands where no episode ended", () => {
  expect([...collect({}).finalObservations_FO]).toEqual([5, 6]);
});

test("arrays of another length are refused, and not filled up with zeros", () => {
  expect(() => collect({ rewards_N: Float32Array.of(1) })).toThrow(
    "The environment returned 1 rewards_N for 2 environments. It must return 2: 1 per environment.",
  );
  expect(() => collect({ observations_NO: new Float32Array(5) })).toThrow("returned 5 observations_NO");
  expect(() => collect({ truncated_N: new Uint8Array(1) })).toThrow("returned 1 truncated_N");
  expect(() => collect({}, { rewardGroups: ["a", "b"] })).toThrow(
    "returned no rewardParts_NG for 2 environments. It must return 4: 2 per environment.",
  );
});

test("numbers that are none are refused at the tick that gave them, with their place", () => {
  expect(() => collect({ observations_NO: Float32Array.of(1, 2, 3, Number.POSITIVE_INFINITY) })).toThrow(
    "Environment 1 returned Infinity in observations_NO, at 1 of 2. All values must be finite.",
  );
  expect(() => collect({ rewards_N: Float32Array.of(Number.NaN, 0) })).toThrow(
    "Environment 0 returned NaN in rewards_N",
  );
  expect(() => collect({ finalObservations_NO: Float32Array.of(0, 0, Number.NaN, 0) })).toThrow(
    "Environment 1 returned NaN in finalObservations_NO",
  );
  expect(() => collect({}, { reset: () => ({ observations_NO: Float32Array.of(0, Number.NaN, 0, 0) }) })).toThrow(
    "Environment 0 returned NaN in observations_NO, at 1 of 2",
  );
});

import { expect, test } from "vitest";
import type { ControlActor } from "./collector/collector.ts";
import { createControlEnv } from "./envs/classic/classic-env.ts";
import type { VecEnv } from "./envs/vec-env.ts";
import { evaluateControl } from "./evaluation.ts";

function actorOf(choose: (n: number) => number, numEnvs: number): ControlActor {
  const actions_NA = Float32Array.from({ length: numEnvs }, (_, n) => choose(n));
  return {
    carrySize: 0,
    act: () => ({ actions_NA, logprobs_N: new Float32Array(numEnvs) }),
    carry_NC: () => new Float32Array(0),
    save: () => null,
    restore() {},
  };
}

/** Copy n ends every n + 1 ticks; a reward of 1 per tick. */
function unequalEnv(numEnvs: number): VecEnv {
  const ticks = new Uint32Array(numEnvs);
  const observations_NO = new Float32Array(numEnvs);
  return {
    numEnvs,
    observationSize: 1,
    actions: { kind: "discrete", count: 2 },
    reset: () => ({ observations_NO }),
    step: () => {
      const terminated_N = ticks.map((tick, n) => (tick === n ? 1 : 0));
      for (let n = 0; n < numEnvs; n++) ticks[n] = terminated_N[n] === 1 ? 0 : ticks[n]! + 1;
      return {
        observations_NO,
        rewards_N: new Float32Array(numEnvs).fill(1),
        terminated_N: Uint8Array.from(terminated_N),
        truncated_N: new Uint8Array(numEnvs),
        finalObservations_NO: observations_NO,
      };
    },
  };
}

test("every copy plays as many episodes, so that short ones do not crowd out the long", () => {
  const metrics = evaluateControl(
    unequalEnv(3),
    actorOf(() => 0, 3),
    { episodes: 6, seed: 1 },
  );
  // Two each of returns 1, 2 and 3; the first six to end would hold four of 1.
  expect(metrics["reward/mean"]).toBe(2);
  expect(metrics["reward/min"]).toBe(1);
  expect(metrics["reward/max"]).toBe(3);
  expect(metrics["episode/count"]).toBe(6);
});

test("pushing a cart one way ends the episode of every copy within a few ticks", () => {
  const env = createControlEnv({ type: "cart-pole", numEnvs: 2 });
  const metrics = evaluateControl(
    env,
    actorOf(() => 1, 2),
    { episodes: 4, seed: 5 },
  );
  expect(metrics["episode/length"]).toBeLessThan(12);
  expect(metrics["episode/length"]).toBe(metrics["reward/mean"]);
});

test("an episode that never ends is told as such", () => {
  const endless = {
    ...unequalEnv(1),
    step: () => ({ ...unequalEnv(1).step(new Float32Array(1)), terminated_N: new Uint8Array(1) }),
  };
  const play = () =>
    evaluateControl(
      endless,
      actorOf(() => 0, 1),
      { episodes: 1, seed: 1, maxTicks: 20 },
    );
  expect(play).toThrow("had not ended after 20 ticks");
});

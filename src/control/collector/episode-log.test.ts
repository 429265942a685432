import { expect, test } from "vitest";
import type { ControlRollout } from "../control-rollout.ts";
import { EpisodeLog } from "./episode-log.ts";

function rolloutWith(returns: readonly number[]): ControlRollout {
  const none = new Float32Array(0);
  return {
    ...{ numTicks: 5, numEnvs: 2, version: 0, observationSize: 0, actionSize: 0, numRewardGroups: 1 },
    ...{ observations_TNO: none, actions_TNA: none, samplerLogprobs_TN: none, rewards_TNG: none, carry_NC: none },
    ...{ terminated_TN: new Uint8Array(0), truncated_TN: new Uint8Array(0), episodeTicks_TN: new Uint32Array(0) },
    ...{
      finalPlaces: [],
      finalObservations_FO: none,
      lastObservations_NO: none,
      lastEpisodeTicks_N: new Uint32Array(0),
    },
    episodes: returns.map((value, i) => ({ env: 0, return: value, length: i + 1 })),
  };
}

test("means are over the episodes of the step, and over the last hundred of the run", () => {
  const log = new EpisodeLog();
  log.add(rolloutWith([...Array(100).keys()]));
  const metrics = log.add(rolloutWith([10, 30]));
  expect(metrics["episode/return"]).toBe(20);
  expect(metrics["episode/length"]).toBe(1.5);
  // 2 to 99, 10 and 30.
  expect(metrics["episode/return_100"]).toBeCloseTo((4949 + 40) / 100, 10);
  expect(metrics["rollout/env_steps"]).toBe(10);
});

test("where no episode ended there is no mean, and the last hundred stay", () => {
  const log = new EpisodeLog([4, 6]);
  const metrics = log.add(rolloutWith([]));
  expect(metrics).toEqual({ "rollout/env_steps": 10, "episode/count": 0, "episode/return_100": 5 });
  expect(log.returns).toEqual([4, 6]);
});

import { expect, test } from "vitest";
import { createControlEnv } from "../envs/classic/classic-env.ts";
import type { VecEnv, VecStep } from "../envs/vec-env.ts";
import { type ControlActor, ControlCollector } from "./collector.ts";

/** Counts its ticks as its observation. Copy 0 is truncated after 3 ticks, copy 1 terminates after 2. */
class CountingEnv implements VecEnv {
  readonly numEnvs = 2;
  readonly observationSize = 1;
  readonly actions = { kind: "discrete", count: 2 } as const;
  readonly rewardGroups = ["walk", "bonus"];
  #ticks = [0, 0];

  reset() {
    this.#ticks = [0, 0];
    return { observations_NO: Float32Array.of(0, 100) };
  }

  step(actions_NA: Float32Array): VecStep {
    const limits = [3, 2];
    this.#ticks = this.#ticks.map((tick) => tick + 1);
    const last = this.#ticks.map((tick, n) => tick + n * 100);
    const hasEnded = this.#ticks.map((tick, n) => tick === limits[n]);
    this.#ticks = this.#ticks.map((tick, n) => (hasEnded[n] ? 0 : tick));
    return {
      observations_NO: Float32Array.from(this.#ticks, (tick, n) => tick + n * 100),
      rewards_N: Float32Array.from(actions_NA, (action) => 1 + action),
      rewardParts_NG: Float32Array.from([1, actions_NA[0]!, 1, actions_NA[1]!]),
      terminated_N: Uint8Array.of(0, hasEnded[1] ? 1 : 0),
      truncated_N: Uint8Array.of(hasEnded[0] ? 1 : 0, 0),
      finalObservations_NO: Float32Array.from(last),
    };
  }
}

/** Acts by how long it has remembered: its memory counts ticks since it was told that an episode begins. */
class CountingActor implements ControlActor {
  readonly carrySize = 1;
  readonly seen: number[][] = [];
  #memory_N = Float32Array.of(7, 7);

  act(observations_NO: Float32Array, isFirst_N: Uint8Array) {
    this.seen.push([...observations_NO]);
    this.#memory_N = this.#memory_N.map((memory, n) => (isFirst_N[n] === 1 ? 1 : memory + 1));
    return {
      actions_NA: this.#memory_N.map((memory) => memory % 2),
      logprobs_N: this.#memory_N.map((value) => -value),
    };
  }

  carry_NC() {
    return this.#memory_N;
  }

  save() {
    return [...this.#memory_N];
  }

  restore(saved: unknown) {
    this.#memory_N = Float32Array.from(saved as number[]);
  }
}

test("a rollout holds what was seen, done and earned, tick by tick", () => {
  const actor = new CountingActor();
  const rollout = new ControlCollector(new CountingEnv(), actor, { seed: 1 }).collect(4, 5);
  expect([...rollout.observations_TNO]).toEqual([0, 100, 1, 101, 2, 100, 0, 101]);
  expect([...rollout.episodeTicks_TN]).toEqual([0, 0, 1, 1, 2, 0, 0, 1]);
  expect([...rollout.actions_TNA]).toEqual([1, 1, 0, 0, 1, 1, 1, 0]);
  expect([...rollout.samplerLogprobs_TN]).toEqual([-1, -1, -2, -2, -3, -1, -1, -2]);
  expect([...rollout.rewards_TNG]).toEqual([1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
  expect([...rollout.truncated_TN]).toEqual([0, 0, 0, 0, 1, 0, 0, 0]);
  expect([...rollout.terminated_TN]).toEqual([0, 0, 0, 1, 0, 0, 0, 1]);
  expect([...rollout.lastObservations_NO]).toEqual([1, 100]);
  expect([...rollout.lastEpisodeTicks_N]).toEqual([1, 0]);
  expect(rollout.version).toBe(5);
});

test("only truncated episodes leave a final observation, in the order of their places", () => {
  const rollout = new ControlCollector(new CountingEnv(), new CountingActor(), { seed: 1 }).collect(6, 0);
  expect(rollout.finalPlaces).toEqual([4, 10]);
  expect([...rollout.finalObservations_FO]).toEqual([3, 3]);
});

test("episodes carry on between rollouts, and the memory of the actor is noted at their start", () => {
  const collector = new ControlCollector(new CountingEnv(), new CountingActor(), { seed: 1 });
  const first = collector.collect(1, 0);
  const second = collector.collect(3, 1);
  expect([...first.carry_NC]).toEqual([7, 7]);
  expect([...second.carry_NC]).toEqual([1, 1]);
  expect([...second.episodeTicks_TN.subarray(0, 2)]).toEqual([1, 1]);
  // The first episode of copy 1 took actions 1 and 0, that of copy 0 actions 1, 0 and 1, over both rollouts.
  expect(first.episodes).toEqual([]);
  expect(second.episodes).toEqual([
    { env: 1, return: 3, length: 2 },
    { env: 0, return: 5, length: 3 },
    { env: 1, return: 3, length: 2 },
  ]);
});

test("a collector that was saved and restored goes on as if nothing had happened", () => {
  const make = () =>
    new ControlCollector(createControlEnv({ type: "cart-pole", numEnvs: 2 }), new CountingActor(), { seed: 4 });
  const original = make();
  original.collect(50, 0);
  const saved: unknown = JSON.parse(JSON.stringify(original.save()));
  const copy = make();
  copy.restore(saved as NonNullable<ReturnType<typeof original.save>>);
  expect(copy.collect(60, 1)).toEqual(original.collect(60, 1));
});

test("environments without save give no state", () => {
  expect(new ControlCollector(new CountingEnv(), new CountingActor(), { seed: 1 }).save()).toBeNull();
});

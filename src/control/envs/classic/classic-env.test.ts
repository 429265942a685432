import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { Random } from "../../../random/random.ts";
import { checkVecEnv } from "../check-vec-env.ts";
import { acrobot } from "./acrobot.ts";
import { cartPole } from "./cart-pole.ts";
import { ControlEnv, controlTasks, createControlEnv } from "./classic-env.ts";
import type { ControlTask } from "./control-task.ts";
import { mountainCar } from "./mountain-car.ts";
import { pendulum } from "./pendulum.ts";

/** A task that counts its steps up from a drawn start, to see what the vector around it does. */
const counter: ControlTask = {
  stateSize: 1,
  observationSize: 1,
  actions: { kind: "discrete", count: 2 },
  maxSteps: 3,
  start: (state, random) => {
    state[0] = random.integer(1000) * 10;
  },
  advance: (state, action) => {
    state[0]! += action === 1 ? 5 : 1;
    return state[0]!;
  },
  hasTerminated: (state) => state[0]! % 10 >= 5,
  observe: (state, observations_NO, offset) => observations_NO.set(state, offset),
};

test("an environment that ended shows its next start, and its last observation apart", () => {
  const env = new ControlEnv(counter, 2);
  const [first, second] = env.reset(7).observations_NO;
  const step = env.step(Float32Array.from([1, 0]));
  expect([...step.terminated_N]).toEqual([1, 0]);
  expect([...step.truncated_N]).toEqual([0, 0]);
  expect([...step.rewards_N]).toEqual([first! + 5, second! + 1]);
  expect(step.finalObservations_NO[0]).toBe(first! + 5);
  expect(step.observations_NO[0]! % 10).toBe(0);
  expect(step.observations_NO[1]).toBe(second! + 1);
});

test("the step limit truncates and counts anew in the next episode", () => {
  const env = new ControlEnv(counter, 1);
  env.reset(7);
  const truncated = Array.from({ length: 7 }, () => env.step(Float32Array.of(0)).truncated_N[0]);
  expect(truncated).toEqual([0, 0, 1, 0, 0, 1, 0]);
});

test("a copy plays the same episodes whatever the number of copies", () => {
  const starts = (numEnvs: number) => {
    const env = new ControlEnv(counter, numEnvs);
    env.reset(3);
    return Array.from({ length: 5 }, () => env.step(new Float32Array(numEnvs).fill(1)).observations_NO[0]);
  };
  expect(starts(4)).toEqual(starts(1));
});

test("wrong calls are refused with what is allowed", () => {
  const env = createControlEnv({ type: "cart-pole", numEnvs: 2 });
  expect(() => env.step(new Float32Array(2))).toThrow(/before its first reset/);
  env.reset(0);
  expect(() => env.step(new Float32Array(3))).toThrow("step got 3 actions for 2 environments");
  expect(() => env.step(Float32Array.of(0, 2))).toThrow(
    "Environment 1 got the action 2. It must be a whole number from 0 to 1.",
  );
  const swing = createControlEnv({ type: "pendulum", numEnvs: 1 });
  swing.reset(0);
  expect(() => swing.step(Float32Array.of(Number.NaN))).toThrow("It must be a finite number");
});

test("one step of a resting cart pushed to the right", () => {
  // push = 10 / 1.1; angle and spins are 0. spinChange = -push / (0.5 (4/3 - 0.1/1.1)) = -14.634146...
  // acceleration = push - 0.05 spinChange / 1.1 = 9.756097...
  const state = new Float64Array(4);
  expect(cartPole.advance(state, 1)).toBe(1);
  expect([...state]).toEqual([0, expect.closeTo(0.195121951219, 10), 0, expect.closeTo(-0.292682926829, 10)]);
});

test("one step of a pendulum that hangs sideways", () => {
  // Angle pi/2, at rest, torque 2 (clipped from 3): change = (15 + 6) 0.05 = 1.05; cost = (pi/2)^2 + 0.001 * 4.
  const state = Float64Array.of(Math.PI / 2, 0);
  expect(pendulum.advance(state, 3)).toBeCloseTo(-((Math.PI / 2) ** 2 + 0.004), 12);
  expect([...state]).toEqual([expect.closeTo(Math.PI / 2 + 0.0525, 12), expect.closeTo(1.05, 12)]);
});

test("a car against the left wall stops, and one past the flag is done", () => {
  const state = Float64Array.of(-1.19, -0.05);
  expect(mountainCar.advance(state, 0)).toBe(-1);
  expect([...state]).toEqual([-1.2, 0]);
  expect(mountainCar.hasTerminated(Float64Array.of(0.5, 0))).toBe(true);
  expect(mountainCar.hasTerminated(Float64Array.of(0.499, 0.07))).toBe(false);
});

test("an arm that hangs still stays, and one that stands up has reached the line", () => {
  const state = new Float64Array(4);
  expect(acrobot.advance(state, 1)).toBe(-1);
  for (const value of state) expect(value).toBeCloseTo(0, 12);
  expect(acrobot.hasTerminated(Float64Array.of(Math.PI, 0, 0, 0))).toBe(true);
  // -cos(2.0) - cos(2.0) = 0.832: below the line.
  expect(acrobot.hasTerminated(Float64Array.of(2, 0, 0, 0))).toBe(false);
});

test("episodes start within the published ranges", () => {
  const random = new Random(1);
  const ranges = { acrobot: [0.1, 0.1, 0.1, 0.1], "cart-pole": [0.05, 0.05, 0.05, 0.05], pendulum: [Math.PI, 1] };
  for (const [name, bounds] of Object.entries(ranges)) {
    const task: ControlTask = controlTasks[name as keyof typeof ranges];
    const largest = new Float64Array(task.stateSize);
    for (let i = 0; i < 2000; i++) {
      const state = new Float64Array(task.stateSize);
      task.start(state, random);
      for (let j = 0; j < state.length; j++) largest[j] = Math.max(largest[j]!, Math.abs(state[j]!));
    }
    bounds.forEach((bound, j) => {
      expect(largest[j]).toBeLessThanOrEqual(bound);
      expect(largest[j]).toBeGreaterThan(0.99 * bound);
    });
  }
  for (let i = 0; i < 1000; i++) {
    const state = new Float64Array(2);
    mountainCar.start(state, random);
    expect(state[0]).toBeGreaterThanOrEqual(-0.6);
    expect(state[0]).toBeLessThan(-0.4);
    expect(state[1]).toBe(0);
  }
});

const numbers = z.array(z.number());
const recording = z.object({
  episodes: z.array(
    z.object({
      start: numbers,
      firstObservation: numbers,
      actions: numbers,
      kept: numbers,
      states: z.array(numbers),
      observations: z.array(numbers),
      rewards: numbers,
      terminated: z.boolean(),
      truncated: z.boolean(),
    }),
  ),
});

describe.each(Object.keys(controlTasks) as (keyof typeof controlTasks)[])("%s", (name) => {
  const file = new URL(`../../../../fixtures/control/${name}.json`, import.meta.url);
  const { episodes } = recording.parse(JSON.parse(readFileSync(file, "utf8")));

  test.each(episodes)("follows an episode recorded with Gymnasium to its end", (episode) => {
    const task: ControlTask = {
      ...controlTasks[name],
      start: (state) => state.set(episode.start),
    };
    const env = new ControlEnv(task, 1);
    const first = env.reset(0).observations_NO;
    episode.firstObservation.forEach((value, i) => {
      expect(first[i]).toBeCloseTo(value, 6);
    });
    episode.actions.forEach((action, i) => {
      const { observations_NO, rewards_N, terminated_N, truncated_N, finalObservations_NO } = env.step(
        Float32Array.of(action),
      );
      const isLast = i === episode.actions.length - 1;
      expect([terminated_N[0], truncated_N[0]]).toEqual([
        Number(isLast && episode.terminated),
        Number(isLast && episode.truncated),
      ]);
      const index = episode.kept.indexOf(i);
      if (index === -1) return;
      expect(rewards_N[0]).toBeCloseTo(episode.rewards[index]!, 5);
      const shown = isLast ? finalObservations_NO : observations_NO;
      episode.observations[index]!.forEach((value, j) => {
        expect(shown[j]).toBeCloseTo(value, 5);
      });
    });
  });

  test("gives the next states of the recorded episode in double precision", () => {
    for (const { start, actions, kept, states } of episodes) {
      const state = Float64Array.from(start);
      for (let i = 0; kept[i] === i; i++) {
        controlTasks[name].advance(state, actions[i]!);
        state.forEach((value, j) => {
          expect(value).toBeCloseTo(states[i]![j]!, name === "pendulum" ? 6 : 12);
        });
      }
    }
  });

  test("keeps the promises of vector environments", async () => {
    expect(await checkVecEnv(() => createControlEnv({ type: name, numEnvs: 3 }))).toEqual([]);
  });
});

test("a saved environment goes on elsewhere as it would have here, through JSON", () => {
  for (const type of ["acrobot", "cart-pole", "mountain-car", "pendulum"] as const) {
    const env = createControlEnv({ type, numEnvs: 2, maxSteps: 7 });
    const push = Float32Array.of(1, 0);
    env.reset(3);
    for (let step = 0; step < 10; step++) env.step(push);
    const copy = createControlEnv({ type, numEnvs: 2, maxSteps: 7 });
    copy.restore?.(JSON.parse(JSON.stringify(env.save?.())));
    // Past the next limit, where the streams of starts are drawn from.
    for (let step = 0; step < 10; step++) {
      const { finalObservations_NO: _, ...expected } = env.step(push);
      expect(copy.step(push)).toMatchObject(expected);
    }
  }
});

test("the state of another number of environments is refused", () => {
  const saved = new ControlEnv(cartPole, 2).save();
  expect(() => new ControlEnv(cartPole, 3).restore(saved)).toThrow("has 2 environments, there are 3");
});

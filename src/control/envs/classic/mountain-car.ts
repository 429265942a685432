/**
 * MountainCar-v0: drive a weak car out of a valley by swinging (Moore, 1990).
 *
 * State and observation: position, velocity. Actions: 0 left, 1 coast, 2 right. Reward -1 for every step. Ends at position 0.5;
 * truncated after 200 steps.
 */
import { between, type ControlTask, clamp } from "./control-task.ts";

const MIN_POSITION = -1.2;
const MAX_POSITION = 0.6;
const MAX_SPEED = 0.07;
const GOAL = 0.5;
const FORCE = 0.001;
const GRAVITY = 0.0025;

/** The equations of MountainCar-v0. */
export const mountainCar: ControlTask = {
  stateSize: 2,
  observationSize: 2,
  actions: { kind: "discrete", count: 3 },
  maxSteps: 200,

  start: (state, random) => {
    state[0] = between(random, -0.6, -0.4);
    state[1] = 0;
  },

  advance: (state, action) => {
    const position = state[0]!;
    const velocity = clamp(
      state[1]! + ((action - 1) * FORCE + Math.cos(3 * position) * -GRAVITY),
      -MAX_SPEED,
      MAX_SPEED,
    );
    state[0] = clamp(position + velocity, MIN_POSITION, MAX_POSITION);
    // The left end is a wall.
    state[1] = state[0] === MIN_POSITION && velocity < 0 ? 0 : velocity;
    return -1;
  },

  hasTerminated: (state) => state[0]! >= GOAL && state[1]! >= 0,

  observe: (state, observations_NO, offset) => observations_NO.set(state, offset),
};

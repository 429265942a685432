/**
 * CartPole-v1: push a cart left or right so that the pole on it stays up (Barto, Sutton and Anderson, 1983).
 *
 * State and observation: position, velocity, angle, angular velocity. Actions: 0 left, 1 right. Reward 1 for every step.
 * Ends when the cart leaves the track or the pole leans more than 12 degrees; truncated after 500 steps.
 */
import { between, type ControlTask } from "./control-task.ts";

const GRAVITY = 9.8;
const POLE_MASS = 0.1;
const TOTAL_MASS = POLE_MASS + 1;
const HALF_LENGTH = 0.5;
const POLE_MOMENT = POLE_MASS * HALF_LENGTH;
const FORCE = 10;
const SECONDS = 0.02;
const MAX_POSITION = 2.4;
const MAX_ANGLE = (12 * 2 * Math.PI) / 360;
const START = 0.05;

/** The equations of CartPole-v1. */
export const cartPole: ControlTask = {
  stateSize: 4,
  observationSize: 4,
  actions: { kind: "discrete", count: 2 },
  maxSteps: 500,

  start: (state, random) => {
    for (let i = 0; i < 4; i++) state[i] = between(random, -START, START);
  },

  advance: (state, action) => {
    const velocity = state[1]!;
    const angle = state[2]!;
    const spin = state[3]!;
    const cosine = Math.cos(angle);
    const sine = Math.sin(angle);
    const push = ((action === 1 ? FORCE : -FORCE) + POLE_MOMENT * (spin * spin) * sine) / TOTAL_MASS;
    const spinChange =
      (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - (POLE_MASS * (cosine * cosine)) / TOTAL_MASS));
    const acceleration = push - (POLE_MOMENT * spinChange * cosine) / TOTAL_MASS;
    state[0]! += SECONDS * velocity;
    state[1] = velocity + SECONDS * acceleration;
    state[2] = angle + SECONDS * spin;
    state[3] = spin + SECONDS * spinChange;
    return 1;
  },

  hasTerminated: (state) => Math.abs(state[0]!) > MAX_POSITION || Math.abs(state[2]!) > MAX_ANGLE,

  observe: (state, observations_NO, offset) => observations_NO.set(state, offset),
};

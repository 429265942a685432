/**
 * The equations of CartPole-v1 (Barto, Sutton and Anderson, 1983), in double precision.
 *
 * A state holds position, velocity, angle and angular velocity. The text environment and the control task share them.
 */
import type { Random } from "../../random/random.ts";

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

/** Numbers in a state. */
export const CART_POLE_STATE_SIZE = 4;

/** Writes the first state of an episode: every number a little off 0. */
export function startCartPole(state: Float64Array, random: Random): void {
  for (let i = 0; i < CART_POLE_STATE_SIZE; i++) state[i] = -START + 2 * START * random.uniform();
}

/** Moves the state on by one step and returns the reward, 1. Action 1 pushes right, 0 left. */
export function advanceCartPole(state: Float64Array, action: number): number {
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
}

/** Whether the cart has left the track or the pole has fallen. */
export function hasCartPoleFallen(state: Float64Array): boolean {
  return Math.abs(state[0]!) > MAX_POSITION || Math.abs(state[2]!) > MAX_ANGLE;
}

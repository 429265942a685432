/**
 * CartPole-v1: push a cart left or right so that the pole on it stays up (Barto, Sutton and Anderson, 1983).
 *
 * State and observation: position, velocity, angle, angular velocity. Actions: 0 left, 1 right. Reward 1 for every step.
 * Ends when the cart leaves the track or the pole leans more than 12 degrees; truncated after 500 steps.
 */
import {
  advanceCartPole,
  CART_POLE_STATE_SIZE,
  hasCartPoleFallen,
  startCartPole,
} from "../../../envs/cart-pole-text/cart-pole-motion.ts";
import type { ControlTask } from "./control-task.ts";

/** CartPole-v1 as a control task. */
export const cartPole: ControlTask = {
  stateSize: CART_POLE_STATE_SIZE,
  observationSize: 4,
  actions: { kind: "discrete", count: 2 },
  maxSteps: 500,

  start: startCartPole,

  advance: advanceCartPole,

  hasTerminated: hasCartPoleFallen,

  observe: (state, observations_NO, offset) => observations_NO.set(state, offset),
};

/**
 * Pendulum-v1: swing a pendulum up with a torque of at most 2 and keep it there.
 *
 * State: angle (0 is up) and angular velocity; observation: cosine, sine, angular velocity. The action is the torque. Reward:
 * -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), the angle taken within half a turn. Never terminates; truncated after 200 steps.
 */
import { between, type ControlTask, clamp } from "./control-task.ts";

const GRAVITY = 10;
const SECONDS = 0.05;
const MAX_SPEED = 8;
const MAX_TORQUE = 2;

/** The equations of Pendulum-v1. */
export const pendulum: ControlTask = {
  stateSize: 2,
  observationSize: 3,
  actions: { kind: "continuous", size: 1, low: -MAX_TORQUE, high: MAX_TORQUE },
  maxSteps: 200,

  start: (state, random) => {
    state[0] = between(random, -Math.PI, Math.PI);
    state[1] = between(random, -1, 1);
  },

  advance: (state, action) => {
    const angle = state[0]!;
    const spin = state[1]!;
    const torque = clamp(action, -MAX_TORQUE, MAX_TORQUE);
    const lean = withinHalfTurn(angle);
    const change = (((3 * GRAVITY) / 2) * Math.sin(angle) + 3 * torque) * SECONDS;
    state[1] = clamp(spin + change, -MAX_SPEED, MAX_SPEED);
    state[0] = angle + state[1] * SECONDS;
    return -(lean * lean + 0.1 * (spin * spin) + 0.001 * (torque * torque));
  },

  hasTerminated: () => false,

  observe: (state, observations_NO, offset) => {
    observations_NO[offset] = Math.cos(state[0]!);
    observations_NO[offset + 1] = Math.sin(state[0]!);
    observations_NO[offset + 2] = state[1]!;
  },
};

function withinHalfTurn(angle: number): number {
  const turn = 2 * Math.PI;
  const rest = (angle + Math.PI) % turn;
  return (rest < 0 ? rest + turn : rest) - Math.PI;
}

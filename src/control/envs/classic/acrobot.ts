/**
 * Acrobot-v1: swing the end of a two-link arm above a line by a torque at its middle joint (Sutton, 1996; the equations of
 * Sutton and Barto's book).
 *
 * State: the two angles (0 hangs down, the second relative to the first) and their velocities; observation: cosine and sine of
 * each angle, then the velocities. Actions: torque -1, 0, 1. Reward -1 for every step, 0 for the one that reaches the line.
 * Ends there; truncated after 500 steps. One step is 0.2 s of a fourth-order Runge-Kutta scheme.
 */
import { between, type ControlTask, clamp } from "./control-task.ts";

const GRAVITY = 9.8;
/** From the joint to the center of mass of a link. Length, mass and moment of inertia of both links are 1. */
const CENTRE = 0.5;
const SECONDS = 0.2;
const MAX_SPINS = [4 * Math.PI, 9 * Math.PI] as const;
const START = 0.1;

/** Two angles and their velocities. */
type ArmState = readonly [number, number, number, number];

/** The equations of Acrobot-v1. */
export const acrobot: ControlTask = {
  stateSize: 4,
  observationSize: 6,
  actions: { kind: "discrete", count: 3 },
  maxSteps: 500,

  start: (state, random) => {
    for (let i = 0; i < 4; i++) state[i] = between(random, -START, START);
  },

  advance: (state, action) => {
    const torque = action - 1;
    const now: ArmState = [state[0]!, state[1]!, state[2]!, state[3]!];
    const k1 = changeOf(now, torque);
    const k2 = changeOf(moved(now, k1, SECONDS / 2), torque);
    const k3 = changeOf(moved(now, k2, SECONDS / 2), torque);
    const k4 = changeOf(moved(now, k3, SECONDS), torque);
    for (let i = 0; i < 4; i++) {
      state[i] = now[i]! + (SECONDS / 6) * (k1[i]! + 2 * k2[i]! + 2 * k3[i]! + k4[i]!);
    }
    state[0] = wrapped(state[0]!);
    state[1] = wrapped(state[1]!);
    state[2] = clamp(state[2]!, -MAX_SPINS[0], MAX_SPINS[0]);
    state[3] = clamp(state[3]!, -MAX_SPINS[1], MAX_SPINS[1]);
    return isAboveLine(state) ? 0 : -1;
  },

  hasTerminated: isAboveLine,

  observe: (state, observations_NO, offset) => {
    observations_NO[offset] = Math.cos(state[0]!);
    observations_NO[offset + 1] = Math.sin(state[0]!);
    observations_NO[offset + 2] = Math.cos(state[1]!);
    observations_NO[offset + 3] = Math.sin(state[1]!);
    observations_NO[offset + 4] = state[2]!;
    observations_NO[offset + 5] = state[3]!;
  },
};

function isAboveLine(state: Float64Array): boolean {
  return -Math.cos(state[0]!) - Math.cos(state[1]! + state[0]!) > 1;
}

/** The rate of change of the state. */
function changeOf([first, second, firstSpin, secondSpin]: ArmState, torque: number): ArmState {
  const sine = Math.sin(second);
  const cosine = Math.cos(second);
  const d1 = CENTRE ** 2 + (1 + CENTRE ** 2 + 2 * CENTRE * cosine) + 2;
  const d2 = CENTRE ** 2 + CENTRE * cosine + 1;
  const phi2 = CENTRE * GRAVITY * Math.cos(first + second - Math.PI / 2);
  const phi1 =
    -CENTRE * secondSpin ** 2 * sine -
    2 * CENTRE * secondSpin * firstSpin * sine +
    (CENTRE + 1) * GRAVITY * Math.cos(first - Math.PI / 2) +
    phi2;
  const secondChange =
    (torque + (d2 / d1) * phi1 - CENTRE * firstSpin ** 2 * sine - phi2) / (CENTRE ** 2 + 1 - d2 ** 2 / d1);
  return [firstSpin, secondSpin, -(d2 * secondChange + phi1) / d1, secondChange];
}

function moved(state: ArmState, change: ArmState, seconds: number): ArmState {
  return [
    state[0] + seconds * change[0],
    state[1] + seconds * change[1],
    state[2] + seconds * change[2],
    state[3] + seconds * change[3],
  ];
}

/** The same angle within half a turn of 0. */
function wrapped(angle: number): number {
  let result = angle;
  while (result > Math.PI) result -= 2 * Math.PI;
  while (result < -Math.PI) result += 2 * Math.PI;
  return result;
}

/**
 * InvertedPendulum in Gymnasium's fourth version: keep a pole upright by moving the cart it stands on.
 *
 * Observation: positions of cart and pole, then their velocities. Action: the force on the cart over 100 N, in [-3, 3]. Reward 1
 * for every step. Ends beyond a lean of 0.2; truncated after 1,000 steps.
 */
import { invertedPendulumModel } from "./models/inverted-pendulum.ts";
import type { MujocoTask } from "./mujoco-task.ts";

const MAX_LEAN = 0.2;
const START_NOISE = 0.01;

/** The rules of InvertedPendulum-v4. */
export const invertedPendulum: MujocoTask = {
  model: invertedPendulumModel,
  frameSkip: 2,
  maxSteps: 1000,
  observationSize: 4,
  actions: { kind: "continuous", size: 1, low: -3, high: 3 },
  memorySize: 0,

  start: (copy) => {
    const { positions, velocities } = copy.views();
    for (const values of [positions, velocities]) {
      for (let i = 0; i < 2; i++) values[i] = START_NOISE * (2 * copy.random.uniform() - 1);
    }
  },

  advance: (copy, action, reward) => {
    copy.views().controls.set(action);
    copy.step();
    reward[0] = 1;
  },

  hasTerminated: (copy) => Math.abs(copy.views().positions[1]!) > MAX_LEAN,

  observe: (copy, observations_NO, offset) => {
    const { positions, velocities } = copy.views();
    observations_NO.set(positions, offset);
    observations_NO.set(velocities, offset + 2);
  },
};

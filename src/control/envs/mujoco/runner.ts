/**
 * HalfCheetah, Hopper and Walker2d in Gymnasium's fourth version: run forward as fast as possible.
 *
 * Observation: all positions but the first (how far it has come), then all velocities. Actions: torques in [-1, 1], one per
 * motor. Reward: meters per second forward, plus 1 where falling ends the episode, minus a cost of the squared action. Truncated
 * after 1,000 steps.
 */
import { clamp } from "../classic/control-task.ts";
import { halfCheetahModel } from "./models/half-cheetah.ts";
import { hopperModel } from "./models/hopper.ts";
import { walker2dModel } from "./models/walker2d.ts";
import type { MujocoCopy } from "./mujoco-copy.ts";
import type { MujocoTask } from "./mujoco-task.ts";

/** The differences between the three. */
interface RunnerRules {
  readonly model: string;
  readonly frameSkip: number;
  /** Duration of one step of the environment, in seconds. */
  readonly seconds: number;
  readonly numPositions: number;
  readonly numMotors: number;
  readonly actionCost: number;
  /** Half the width of the uniform noise on the first positions. */
  readonly startNoise: number;
  /** Distribution of the first velocities: uniform like positions, or normal with `startNoise` as standard deviation. */
  readonly startVelocities: "uniform" | "normal";
  /** Observed velocities are clipped to this. */
  readonly maxVelocity: number;
  /** If given, the episode ends once this is false, and every step earns 1 more. */
  readonly isUpright?: (copy: MujocoCopy) => boolean;
}

/** The rules of HalfCheetah-v4. It never falls. */
export const halfCheetah = createRunner({
  model: halfCheetahModel,
  frameSkip: 5,
  seconds: 0.05,
  numPositions: 9,
  numMotors: 6,
  actionCost: 0.1,
  startNoise: 0.1,
  startVelocities: "normal",
  maxVelocity: Number.POSITIVE_INFINITY,
});

/** The rules of Hopper-v4. It has fallen below 0.7 m, beyond a pitch of 0.2, or when any other number exceeds 100. */
export const hopper = createRunner({
  model: hopperModel,
  frameSkip: 4,
  seconds: 0.008,
  numPositions: 6,
  numMotors: 3,
  actionCost: 1e-3,
  startNoise: 5e-3,
  startVelocities: "uniform",
  maxVelocity: 10,
  isUpright: (copy) => {
    const { positions, velocities } = copy.views();
    const isSane = (value: number) => Math.abs(value) < 100;
    const isHigh = positions[1]! > 0.7 && Math.abs(positions[2]!) < 0.2;
    return isHigh && positions.subarray(2).every(isSane) && velocities.every(isSane);
  },
});

/** The rules of Walker2d-v4. It has fallen outside heights of 0.8 to 2 m or beyond a pitch of 1. */
export const walker2d = createRunner({
  model: walker2dModel,
  frameSkip: 4,
  seconds: 0.008,
  numPositions: 9,
  numMotors: 6,
  actionCost: 1e-3,
  startNoise: 5e-3,
  startVelocities: "uniform",
  maxVelocity: 10,
  isUpright: (copy) => {
    const { positions } = copy.views();
    return positions[1]! > 0.8 && positions[1]! < 2 && Math.abs(positions[2]!) < 1;
  },
});

function createRunner(rules: RunnerRules): MujocoTask {
  const { model, frameSkip, seconds, numPositions, numMotors, actionCost, maxVelocity, isUpright } = rules;
  const aliveReward = isUpright === undefined ? 0 : 1;
  return {
    model,
    frameSkip,
    maxSteps: 1000,
    observationSize: 2 * numPositions - 1,
    actions: { kind: "continuous", size: numMotors, low: -1, high: 1 },
    memorySize: 0,

    start: (copy) => {
      const { positions, velocities } = copy.views();
      const { startNoise, startVelocities } = rules;
      const uniform = () => startNoise * (2 * copy.random.uniform() - 1);
      const drawVelocity = startVelocities === "uniform" ? uniform : () => startNoise * copy.random.normal();
      for (let i = 0; i < numPositions; i++) positions[i]! += uniform();
      for (let i = 0; i < numPositions; i++) velocities[i]! += drawVelocity();
    },

    advance: (copy, action, reward) => {
      const { positions, controls } = copy.views();
      const before = positions[0]!;
      controls.set(action);
      copy.step();
      const speed = (copy.views().positions[0]! - before) / seconds;
      reward[0] = speed + aliveReward - actionCost * action.reduce((sum, value) => sum + value * value, 0);
    },

    hasTerminated: (copy) => isUpright?.(copy) === false,

    observe: (copy, observations_NO, offset) => {
      const { positions, velocities } = copy.views();
      for (let i = 1; i < numPositions; i++) observations_NO[offset + i - 1] = positions[i]!;
      for (let i = 0; i < numPositions; i++) {
        observations_NO[offset + numPositions - 1 + i] = clamp(velocities[i]!, -maxVelocity, maxVelocity);
      }
    },
  };
}

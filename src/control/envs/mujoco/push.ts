/**
 * Push: bring a puck to commanded places on a table whose physics are hidden and drawn anew for every episode.
 *
 * A gantry moves a soft ring that lies around the puck. Action: the force of its two motors, each in [-1, 1], in a frame that is
 * rotated by a hidden angle; strength, the puck's mass and damping, and a tilt of the table are hidden too. A single observation
 * reveals none of that, since it holds no velocities; the effects of earlier actions do.
 *
 * A tick is 0.04 s, an episode 250 of them, and it never ends earlier. The command changes every 50 to 75 ticks. Reward:
 * `tracking`, exp(-distance of the puck to the command / 0.15 m), and `effort`, -0.02 times the squared action.
 */
import { z } from "zod";
import type { Random } from "../../../random/random.ts";
import type { ObservationSlice } from "../vec-env.ts";
import { CARRIAGE_MASS, pushModel, RING_SLACK } from "./models/push.ts";
import type { MujocoCopy } from "./mujoco-copy.ts";
import type { MujocoTask } from "./mujoco-task.ts";
import { drawHidden, NUM_HIDDEN, type PushPhysics, physicsOf, pushPhysicsOptions } from "./push-physics.ts";

/** The options of the task. */
export const pushOptions = z.strictObject({
  split: z
    .enum(["train", "heldOut"])
    .default("train")
    .describe("Draw the hidden physics within their ranges (train), or all of them a little beyond (heldOut)."),
  noise: z.number().min(0).default(0.01).describe("Standard deviation of the noise on observed positions, in meters."),
  physics: pushPhysicsOptions.prefault({}),
});

/** The parts of the observation: the command, the robot, the puck, and what only the simulator knows. */
export const pushGroups = {
  /** Commanded place, and the vector to it from the puck as observed. */
  cmd: { start: 0, size: 4 },
  /** The carriage as observed, and the last action. */
  obs: { start: 4, size: 4 },
  /** The puck as observed. */
  object: { start: 8, size: 2 },
  /**
   * Without noise: carriage, its velocity, puck, its velocity, stretch of the ring, vector from the puck to the command; then
   * the hidden numbers, with the angle as cosine and sine.
   */
  priv: { start: 10, size: 19 },
} as const satisfies Record<string, ObservationSlice>;

const OBSERVATION_SIZE = 29;
const TRACKING_METRES = 0.15;
const EFFORT_COST = 0.02;
/** Largest distance of commands and starts from the middle, along x and along y. */
const COMMAND_REACH = 0.4;
const START_REACH = 0.2;
/** A new command is at least this far from the one before. */
const COMMAND_MOVE = 0.3;
const COMMAND_TICKS = [50, 75] as const;

/** Places of an episode's numbers in the memory of a copy. The hidden ones come first. */
const TARGET = NUM_HIDDEN;
const TICKS_LEFT = TARGET + 2;
const ACTION = TICKS_LEFT + 1;

/** The rules of the task. */
export function createPush({ split, noise, physics: ranges }: z.output<typeof pushOptions>): MujocoTask {
  return {
    model: pushModel,
    frameSkip: 2,
    maxSteps: 250,
    observationSize: OBSERVATION_SIZE,
    actions: { kind: "continuous", size: 2, low: -1, high: 1 },
    observationGroups: pushGroups,
    rewardGroups: ["tracking", "effort"],
    memorySize: ACTION + 2,

    start: (copy) => {
      const { memory, random } = copy;
      for (let i = 0; i < NUM_HIDDEN; i++) memory[i] = drawHidden(random, split);
      const { positions } = copy.views();
      for (const axis of [0, 1]) {
        positions[axis] = within(random, START_REACH);
        positions[2 + axis] = positions[axis]!;
        memory[TARGET + axis] = positions[axis]!;
      }
      drawCommand(copy);
      applyPhysics(copy, physicsOf(memory, ranges));
    },

    advance: (copy, action, reward) => {
      const { memory } = copy;
      const physics = physicsOf(memory, ranges);
      applyPhysics(copy, physics);
      const { controls } = copy.views();
      const { cosine, sine, motorStrength } = physics;
      controls[0] = motorStrength * (cosine * action[0]! - sine * action[1]!);
      controls[1] = motorStrength * (sine * action[0]! + cosine * action[1]!);
      copy.step();
      const { positions } = copy.views();
      const distance = Math.hypot(memory[TARGET]! - positions[2]!, memory[TARGET + 1]! - positions[3]!);
      reward[0] = Math.exp(-distance / TRACKING_METRES);
      reward[1] = -EFFORT_COST * (action[0]! ** 2 + action[1]! ** 2);
      memory.set(action, ACTION);
      memory[TICKS_LEFT]!--;
      if (memory[TICKS_LEFT] === 0) drawCommand(copy);
    },

    hasTerminated: () => false,

    observe: (copy, observations_NO, offset) => {
      const { memory, random } = copy;
      const { positions, velocities } = copy.views();
      const { cosine, sine } = physicsOf(memory, ranges);
      const stretch = stretchOf(positions);
      const write = (place: number, value: number) => {
        observations_NO[offset + place] = value;
      };
      const { cmd, obs, object, priv } = pushGroups;
      for (const axis of [0, 1]) {
        const target = memory[TARGET + axis]!;
        const puck = positions[2 + axis]!;
        const seenPuck = puck + noise * random.normal();
        write(cmd.start + axis, target);
        write(cmd.start + 2 + axis, target - seenPuck);
        write(obs.start + axis, positions[axis]! + noise * random.normal());
        write(obs.start + 2 + axis, memory[ACTION + axis]!);
        write(object.start + axis, seenPuck);
        write(priv.start + axis, positions[axis]!);
        write(priv.start + 2 + axis, velocities[axis]!);
        write(priv.start + 4 + axis, puck);
        write(priv.start + 6 + axis, velocities[2 + axis]!);
        write(priv.start + 8 + axis, stretch * (positions[axis]! - puck));
        write(priv.start + 10 + axis, target - puck);
        write(priv.start + 17 + axis, memory[4 + axis]!);
      }
      for (let i = 0; i < 3; i++) write(priv.start + 12 + i, memory[i]!);
      write(priv.start + 15, cosine);
      write(priv.start + 16, sine);
    },

    marks: ({ memory }) => [{ kind: "mark", position: [memory[TARGET]!, memory[TARGET + 1]!, 0] }],
  };
}

/** All copies share a model, so a copy writes its own physics into it before every step. */
function applyPhysics(copy: MujocoCopy, { puckMass, puckDamping, tiltX, tiltY }: PushPhysics): void {
  const { bodyMasses, jointDampings, jointForces } = copy.views();
  bodyMasses[2] = puckMass;
  jointDampings[2] = puckDamping;
  jointDampings[3] = puckDamping;
  jointForces[0] = CARRIAGE_MASS * tiltX;
  jointForces[1] = CARRIAGE_MASS * tiltY;
  jointForces[2] = puckMass * tiltX;
  jointForces[3] = puckMass * tiltY;
}

function drawCommand({ memory, random }: MujocoCopy): void {
  const before = [memory[TARGET]!, memory[TARGET + 1]!] as const;
  do {
    memory[TARGET] = within(random, COMMAND_REACH);
    memory[TARGET + 1] = within(random, COMMAND_REACH);
  } while (Math.hypot(memory[TARGET]! - before[0], memory[TARGET + 1]! - before[1]) < COMMAND_MOVE);
  const [least, most] = COMMAND_TICKS;
  memory[TICKS_LEFT] = least + random.integer(most - least + 1);
}

/** Fraction of the distance between the centers by which the ring is stretched; 0 while it is slack. */
function stretchOf(positions: Float64Array): number {
  const length = Math.hypot(positions[0]! - positions[2]!, positions[1]! - positions[3]!);
  return length > RING_SLACK ? 1 - RING_SLACK / length : 0;
}

function within(random: Random, reach: number): number {
  return reach * (2 * random.uniform() - 1);
}

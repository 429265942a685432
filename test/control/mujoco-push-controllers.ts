/**
 * Scripted controllers of the push task, to see what knowing its hidden physics is worth.
 *
 * All of them push the puck towards the command with a force that grows with the distance, against their speed. They differ in
 * what they know: everything; nothing but the single observation; or what their own earlier actions did.
 */

import { pushGroups } from "../../src/control/envs/mujoco/push.ts";
import { physicsOf, pushPhysicsOptions } from "../../src/control/envs/mujoco/push-physics.ts";
import type { VecEnv } from "../../src/control/envs/vec-env.ts";

/** Chooses one action from one observation, and may remember. */
export type PushController = (observation: Float32Array) => readonly [number, number];

type Point = readonly [number, number];

/** Newtons per metre, newtons per metre per second, and newtons of a motor at nominal strength. */
const PULL = 40;
const BRAKE = 4;
const MOTOR = 8;
const SECONDS = 0.04;
/** Of carriage and puck together, in the middle of the ranges. */
const NOMINAL_MASS = 2;
const NOMINAL_DAMPING = 6;

const ranges = pushPhysicsOptions.parse({});
const { cmd, obs, priv } = pushGroups;

/** Reads the hidden numbers from the privileged part. */
export function knowingController(): PushController {
  return (observation) => {
    const at = (place: number) => observation[priv.start + place]!;
    const angle = Math.atan2(at(16), at(15));
    const hidden = [at(12), at(13), at(14), 0, at(17), at(18)];
    const { puckMass, motorStrength, tiltX, tiltY } = physicsOf(hidden, ranges);
    const force: Point = [
      PULL * at(10) - BRAKE * at(2) - (1 + puckMass) * tiltX,
      PULL * at(11) - BRAKE * at(3) - (1 + puckMass) * tiltY,
    ];
    return actionFor(force, angle, motorStrength);
  };
}

/** Takes the middle of every range for granted and has no memory. */
export function blindController(): PushController {
  return (observation) => actionFor(toCommand(observation), 0, 1);
}

/** Has the same observation as the blind one, and learns the angle from where its own actions have led. */
export function rememberingController(): PushController {
  const addPair = fitTurn();
  let speed: Point = [0, 0];
  let way: Point = [0, 0];
  return (observation) => {
    const action: Point = [observation[obs.start + 2]!, observation[obs.start + 3]!];
    speed = addScaled(speed, addScaled(scaled(action, MOTOR), speed, -NOMINAL_DAMPING), SECONDS / NOMINAL_MASS);
    way = addScaled(way, speed, SECONDS);
    const angle = addPair(way, [observation[obs.start]!, observation[obs.start + 1]!]);
    return actionFor(addScaled(toCommand(observation), turned(speed, angle), -BRAKE), angle, 1);
  };
}

/** The mean return of one episode in every copy. */
export function playPush(env: VecEnv, seed: number, numTicks: number, createController: () => PushController): number {
  const controllers = Array.from({ length: env.numEnvs }, createController);
  let { observations_NO } = env.reset(seed);
  let sum = 0;
  for (let tick = 0; tick < numTicks; tick++) {
    const actions = controllers.flatMap((controller, n) =>
      controller(observations_NO.subarray(n * env.observationSize, (n + 1) * env.observationSize)),
    );
    const step = env.step(Float32Array.from(actions));
    observations_NO = step.observations_NO;
    for (const reward of step.rewards_N) sum += reward;
  }
  return sum / env.numEnvs;
}

/**
 * Takes two paths point by point and gives the angle by which the second is turned against the first: that of the best fit by a
 * turn, a scale and a shift.
 */
export function fitTurn(): (first: Point, second: Point) => number {
  let count = 0;
  let firstSum: Point = [0, 0];
  let secondSum: Point = [0, 0];
  let products: Point = [0, 0];
  return (first, second) => {
    count++;
    firstSum = addScaled(firstSum, first, 1);
    secondSum = addScaled(secondSum, second, 1);
    products = addScaled(products, alongAndAcross(first, second), 1);
    const [along, across] = addScaled(products, alongAndAcross(firstSum, secondSum), -1 / count);
    return Math.atan2(across, along);
  };
}

function alongAndAcross([x, y]: Point, [u, v]: Point): Point {
  return [x * u + y * v, x * v - y * u];
}

function toCommand(observation: Float32Array): Point {
  return [PULL * observation[cmd.start + 2]!, PULL * observation[cmd.start + 3]!];
}

/** In the motors' frame, and within their strength. */
function actionFor(force: Point, angle: number, strength: number): Point {
  const action = scaled(turned(force, -angle), 1 / (MOTOR * strength));
  return scaled(action, 1 / Math.max(1, Math.abs(action[0]), Math.abs(action[1])));
}

function turned([x, y]: Point, angle: number): Point {
  return [Math.cos(angle) * x - Math.sin(angle) * y, Math.sin(angle) * x + Math.cos(angle) * y];
}

function addScaled(point: Point, other: Point, scale: number): Point {
  return [point[0] + scale * other[0], point[1] + scale * other[1]];
}

function scaled([x, y]: Point, scale: number): Point {
  return [scale * x, scale * y];
}

import fc from "fast-check";
import { expect, test } from "vitest";
import {
  blindController,
  fitTurn,
  knowingController,
  playPush,
  rememberingController,
} from "../../../../test/control/mujoco-push-controllers.ts";
import { Random } from "../../../random/random.ts";
import { checkVecEnv } from "../check-vec-env.ts";
import { createMujocoEnv } from "./create-mujoco-env.ts";
import { pushGroups } from "./push.ts";
import { drawHidden, physicsOf, pushPhysicsOptions } from "./push-physics.ts";

const { cmd, obs, object, priv } = pushGroups;

test("the hidden numbers span the ranges on their scales", () => {
  const ranges = pushPhysicsOptions.parse({});
  const low = physicsOf([-1, -1, -1, -1, -1, -1], ranges);
  expect(low).toMatchObject({ puckMass: 0.5, puckDamping: 1, motorStrength: 0.7, tiltX: -0.5, tiltY: -0.5 });
  // A turn by -120 degrees.
  expect(low.cosine).toBeCloseTo(-0.5, 12);
  expect(low.sine).toBeCloseTo(-Math.sqrt(3) / 2, 12);
  // The middle of a logarithmic range is the geometric mean.
  expect(physicsOf([0, 0, 0, 0, 0, 0], ranges)).toMatchObject({ puckMass: 1, puckDamping: 2, cosine: 1, sine: 0 });
  expect(physicsOf([1.25, 0, 0, 1.25, 0, 0], ranges).puckMass).toBeCloseTo(0.5 * 4 ** 1.125, 12);
});

test("training physics stay within the ranges that the options give", () => {
  const place = fc.double({ min: -1, max: 1, noNaN: true });
  const hidden = fc.tuple(place, place, place, place, place, place);
  const ends = fc.tuple(fc.double({ min: 0.1, max: 1, noNaN: true }), fc.double({ min: 1.1, max: 9, noNaN: true }));
  fc.assert(
    fc.property(hidden, ends, fc.double({ min: 0, max: 140, noNaN: true }), (numbers, puckMass, motorRotation) => {
      const physics = physicsOf(numbers, pushPhysicsOptions.parse({ puckMass, motorRotation }));
      expect(physics.puckMass).toBeGreaterThanOrEqual(puckMass[0] * (1 - 1e-12));
      expect(physics.puckMass).toBeLessThanOrEqual(puckMass[1] * (1 + 1e-12));
      const degrees = (Math.atan2(physics.sine, physics.cosine) * 180) / Math.PI;
      expect(Math.abs(degrees)).toBeLessThanOrEqual(motorRotation + 1e-9);
    }),
  );
});

test("push keeps the promises of vector environments", async () => {
  const makeEnv = () => createMujocoEnv({ type: "push", numEnvs: 3, maxSteps: 40, split: "heldOut" });
  expect(await checkVecEnv(makeEnv, { numSteps: 100 })).toEqual([]);
});

test("held-out physics lie beyond every range of training, by at most a quarter", () => {
  const random = new Random(1);
  const draw = (split: "train" | "heldOut") => Array.from({ length: 500 }, () => drawHidden(random, split));
  const train = draw("train").map(Math.abs);
  const heldOut = draw("heldOut");
  expect(Math.max(...train)).toBeLessThanOrEqual(1);
  expect(Math.min(...heldOut.map(Math.abs))).toBeGreaterThanOrEqual(1);
  expect(Math.max(...heldOut)).toBeGreaterThan(1.2);
  expect(Math.min(...heldOut)).toBeLessThan(-1.2);
  expect(Math.max(...heldOut.map(Math.abs))).toBeLessThanOrEqual(1.25);
});

test("the groups cover the observation, and without noise they agree", async () => {
  const env = await createMujocoEnv({ type: "push", numEnvs: 1, noise: 0 });
  expect(cmd.size + obs.size + object.size + priv.size).toBe(env.observationSize);
  env.reset(2);
  const { observations_NO: seen } = env.step(Float32Array.of(0.5, -2));
  const pair = (place: number) => [seen[place], seen[place + 1]];
  expect(pair(obs.start)).toEqual(pair(priv.start));
  expect(pair(object.start)).toEqual(pair(priv.start + 4));
  expect(pair(cmd.start + 2)).toEqual(pair(priv.start + 10));
  // The last action, as clipped.
  expect(pair(obs.start + 2)).toEqual([0.5, -1]);
  expect(seen[priv.start + 15]! ** 2 + seen[priv.start + 16]! ** 2).toBeCloseTo(1, 6);
  await env.close();
});

test("the reward is what the distance and the action say, in two parts that sum to it", async () => {
  const env = await createMujocoEnv({ type: "push", numEnvs: 3 });
  env.reset(2);
  const { rewards_N, rewardParts_NG, observations_NO } = env.step(new Float32Array(6).fill(1));
  for (let n = 0; n < 3; n++) {
    const at = n * env.observationSize + priv.start + 10;
    const distance = Math.hypot(observations_NO[at]!, observations_NO[at + 1]!);
    expect(rewardParts_NG![2 * n]).toBeCloseTo(Math.exp(-distance / 0.15), 5);
    expect(rewardParts_NG![2 * n + 1]).toBeCloseTo(-0.04, 6);
    expect(rewards_N[n]).toBeCloseTo(rewardParts_NG![2 * n]! + rewardParts_NG![2 * n + 1]!, 6);
  }
  await env.close();
});

test("the motors push along their turned frame", async () => {
  const env = await createMujocoEnv({ type: "push", numEnvs: 8, physics: { tilt: 0 } });
  env.reset(6);
  const actions = Float32Array.from({ length: 16 }, (_, i) => (i % 2 === 0 ? 1 : 0));
  const { observations_NO } = env.step(actions);
  for (let n = 0; n < 8; n++) {
    const [cosine, sine, speedX, speedY] = [15, 16, 2, 3].map(
      (place) => observations_NO[n * env.observationSize + priv.start + place]!,
    );
    expect(Math.atan2(speedY!, speedX!)).toBeCloseTo(Math.atan2(sine!, cosine!), 5);
  }
  await env.close();
});

test("the command changes every 50 to 75 ticks, by at least 30 cm, and physics stay for the episode", async () => {
  const env = await createMujocoEnv({ type: "push", numEnvs: 1 });
  let seen = Float32Array.from(env.reset(3).observations_NO);
  const hidden = [...seen.subarray(priv.start + 12)];
  const changes: number[] = [];
  for (let tick = 1; tick < 250; tick++) {
    const next = Float32Array.from(env.step(new Float32Array(2)).observations_NO);
    expect([...next.subarray(priv.start + 12)]).toEqual(hidden);
    const move = Math.hypot(next[0]! - seen[0]!, next[1]! - seen[1]!);
    if (move > 0) {
      expect(move).toBeGreaterThanOrEqual(0.299);
      changes.push(tick);
    }
    seen = next;
  }
  expect(changes.length).toBeGreaterThanOrEqual(3);
  changes.forEach((tick, i) => {
    const held = tick - (changes[i - 1] ?? 0);
    expect(held).toBeGreaterThanOrEqual(50);
    expect(held).toBeLessThanOrEqual(75);
  });
  const { truncated_N, observations_NO } = env.step(new Float32Array(2));
  expect(truncated_N[0]).toBe(1);
  expect([...observations_NO.subarray(priv.start + 12)]).not.toEqual(hidden);
  await env.close();
});

test("knowing the physics is worth much more than guessing them, and memory recovers most of it", async () => {
  for (const split of ["train", "heldOut"] as const) {
    const env = await createMujocoEnv({ type: "push", numEnvs: 32, split });
    const knowing = playPush(env, 7, 250, knowingController);
    const blind = playPush(env, 7, 250, blindController);
    const remembering = playPush(env, 7, 250, rememberingController);
    await env.close();
    expect(knowing).toBeGreaterThan(150);
    expect(blind).toBeLessThan(45);
    expect(remembering).toBeGreaterThan(blind + 60);
  }
});

test("a path that is turned and shifted gives the angle back", () => {
  const addPair = fitTurn();
  const corners = [
    [0, 0],
    [1, 0],
    [1, 2],
  ] as const;
  const angles = corners.map(([x, y]) => addPair([x, y], [3 - 2 * y, 5 + 2 * x]));
  expect(angles.at(-1)).toBeCloseTo(Math.PI / 2, 12);
});

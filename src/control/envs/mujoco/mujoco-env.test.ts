import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { Random } from "../../../random/random.ts";
import { checkVecEnv } from "../check-vec-env.ts";
import { createMujocoEnv, gymnasiumTasks } from "./create-mujoco-env.ts";
import { loadMujoco } from "./load-mujoco.ts";
import { MujocoCopy } from "./mujoco-copy.ts";
import { MujocoEnv } from "./mujoco-env.ts";
import type { MujocoTask } from "./mujoco-task.ts";

const state = z.object({ positions: z.array(z.number()), velocities: z.array(z.number()) });
const result = state.extend({ observation: z.array(z.number()), reward: z.number(), terminated: z.boolean() });
const recording = z.object({
  start: state,
  actions: z.array(z.array(z.number())),
  episode: z.array(result.extend({ index: z.int() })),
  singles: z.array(result.extend({ from: state, action: z.array(z.number()) })),
});

/** Measured over all recordings: 6e-14 after one step, 3e-14 in positions after sixty. */
const STEP_TOLERANCE = 1e-12;
const EPISODE_TOLERANCE = 1e-11;

const names = ["half-cheetah", "hopper", "walker2d", "inverted-pendulum"] as const;
const mujoco = await loadMujoco();

describe.each(names)("%s", (name) => {
  const task: MujocoTask = gymnasiumTasks[name];
  const file = new URL(`../../../../fixtures/mujoco/${name}.json`, import.meta.url);
  const recorded = recording.parse(JSON.parse(readFileSync(file, "utf8")));
  const model = mujoco.MjModel.from_xml_string(task.model);
  const copy = new MujocoCopy(mujoco, model, task.frameSkip, task.memorySize);
  const reward = new Float64Array(1);

  const put = ({ positions, velocities }: z.output<typeof state>) => {
    copy.reset();
    copy.views().positions.set(positions);
    copy.views().velocities.set(velocities);
    copy.forward();
  };

  const expectResult = (wanted: z.output<typeof result>, tolerance: number) => {
    const { positions, velocities } = copy.views();
    expectNear(positions, wanted.positions, tolerance);
    // Velocities and what follows from them are steeper than positions.
    expectNear(velocities, wanted.velocities, 100 * tolerance);
    expectNear(reward, [wanted.reward], 100 * tolerance);
    expect(task.hasTerminated(copy)).toBe(wanted.terminated);
    const observation = new Float32Array(task.observationSize);
    task.observe(copy, observation, 0);
    expectNear(observation, [...Float32Array.from(wanted.observation)], 1e-5);
  };

  test("takes the steps that Gymnasium takes from the same states", () => {
    for (const single of recorded.singles) {
      put(single.from);
      task.advance(copy, Float64Array.from(single.action), reward);
      expectResult(single, STEP_TOLERANCE);
    }
  });

  test("stays with Gymnasium through an episode and beyond its end", () => {
    put(recorded.start);
    recorded.actions.forEach((action, i) => {
      task.advance(copy, Float64Array.from(action), reward);
      const wanted = recorded.episode.find(({ index }) => index === i);
      if (wanted !== undefined) expectResult(wanted, EPISODE_TOLERANCE);
    });
  });

  test("keeps the promises of vector environments", async () => {
    const makeEnv = () => createMujocoEnv({ type: name, numEnvs: 2, maxSteps: 30 });
    expect(await checkVecEnv(makeEnv, { numSteps: 80 })).toEqual([]);
  });

  test("goes on exactly where it was saved, through the end of the episode", async () => {
    const env = await createMujocoEnv({ type: name, numEnvs: 2, maxSteps: 12 });
    env.reset(3);
    play(env, 5);
    const saved = JSON.parse(JSON.stringify(env.save()));
    const wanted = play(env, 20);
    const other = await createMujocoEnv({ type: name, numEnvs: 2, maxSteps: 12 });
    other.restore(saved);
    expect(play(other, 20)).toEqual(wanted);
    await env.close();
    await other.close();
  });
});

test("an action beyond the bounds is clipped before it costs anything", async () => {
  const stepOnce = async (value: number) => {
    const env = await createMujocoEnv({ type: "half-cheetah", numEnvs: 1 });
    env.reset(0);
    const reward = env.step(new Float32Array(6).fill(value)).rewards_N[0];
    await env.close();
    return reward;
  };
  expect(await stepOnce(7)).toBe(await stepOnce(1));
});

test("a copy plays the same episodes whatever the number of copies, and starts within the noise", async () => {
  const few = await createMujocoEnv({ type: "hopper", numEnvs: 1 });
  const many = await createMujocoEnv({ type: "hopper", numEnvs: 5 });
  const first = few.reset(9).observations_NO;
  const all = many.reset(9).observations_NO;
  expect([...all.subarray(0, 11)]).toEqual([...first]);
  expect([...all.subarray(11, 22)]).not.toEqual([...first]);
  // Height 1.25, everything else 0, each with noise of at most 0.005.
  const rest = Float32Array.from([1.25, ...new Array(10).fill(0)]);
  for (let i = 0; i < all.length; i++) expect(Math.abs(all[i]! - rest[i % 11]!)).toBeLessThan(0.00501);
  await few.close();
  await many.close();
});

test("an environment survives that MuJoCo's memory moves", async () => {
  const moved = await createMujocoEnv({ type: "hopper", numEnvs: 2 });
  moved.reset(1);
  const before = play(moved, 3);
  moved.reset(1);
  // 100 copies of 256 KiB are more than the memory that the library starts with.
  const large = await createMujocoEnv({ type: "hopper", numEnvs: 100 });
  expect(play(moved, 3)).toEqual(before);
  await large.close();
  await moved.close();
});

test("wrong calls are refused with what is allowed", async () => {
  const env = await createMujocoEnv({ type: "hopper", numEnvs: 2 });
  expect(() => env.step(new Float32Array(6))).toThrow(/before its first reset/);
  env.reset(0);
  expect(() => env.step(new Float32Array(2))).toThrow("step got 2 numbers for 2 environments of 3 motors. Give 6.");
  expect(() => env.step(Float32Array.of(0, 0, 0, 0, Number.NaN, 0))).toThrow(/Environment 1 got the action NaN/);
  const alone = await createMujocoEnv({ type: "hopper", numEnvs: 1 });
  alone.reset(0);
  expect(() => env.restore(alone.save())).toThrow(/has 1 environments, there are 2/);
  if (!(env instanceof MujocoEnv)) throw new Error("without threads");
  expect(() => env.frame(2)).toThrow(/must be one of 0 to 1/);
  await env.close();
  await alone.close();
});

/** Everything that random actions lead to. */
function play(env: Awaited<ReturnType<typeof createMujocoEnv>>, numSteps: number): number[][] {
  const random = new Random(5);
  return Array.from({ length: numSteps }, () => {
    const actions = Float32Array.from({ length: env.numEnvs * env.actions.size }, () => 2 * random.uniform() - 1);
    const { observations_NO, rewards_N, terminated_N, truncated_N } = env.step(actions);
    return [...observations_NO, ...rewards_N, ...terminated_N, ...truncated_N];
  });
}

function expectNear(got: ArrayLike<number>, wanted: readonly number[], tolerance: number): void {
  wanted.forEach((value, i) => {
    expect(Math.abs(got[i]! - value)).toBeLessThanOrEqual(tolerance);
  });
}

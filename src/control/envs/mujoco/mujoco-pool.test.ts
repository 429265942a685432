import type { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Random } from "../../../random/random.ts";
import { buildTask, createMujocoEnv, mujocoEnvOptions } from "./create-mujoco-env.ts";
import type { MujocoEnv } from "./mujoco-env.ts";
import { MujocoPool, openMujocoPool, startMujocoThread } from "./mujoco-pool.ts";

const options = mujocoEnvOptions.parse({ type: "push", numEnvs: 5, maxSteps: 8 });
const task = buildTask(options);

describe("a pool", () => {
  // Threads take long to start, so all of these share some; the last ones break them.
  let pool: MujocoEnv | MujocoPool;
  beforeAll(async () => {
    pool = await createMujocoEnv({ ...options, numThreads: 2 });
  });
  afterAll(() => pool.close());

  test("refuses a step before the first reset", () => {
    expect(pool).toBeInstanceOf(MujocoPool);
    expect(() => pool.step(new Float32Array(10))).toThrow(/before its first reset/);
  });

  test("plays exactly what one thread plays, from a seed and from a saved state", async () => {
    const here = await createMujocoEnv(options);
    expect([...pool.reset(4).observations_NO]).toEqual([...here.reset(4).observations_NO]);
    expect(play(pool, 20)).toEqual(play(here, 20));
    const saved = JSON.parse(JSON.stringify(here.save()));
    expect(pool.save()).toEqual(saved);
    const next = play(here, 20);
    pool.reset(99);
    pool.restore(saved);
    expect(play(pool, 20)).toEqual(next);
    await here.close();
  });

  test("refuses a wrong action and goes on", () => {
    expect(() => pool.step(new Float32Array(10).fill(Number.NaN))).toThrow(/Environment 0 got the action NaN/);
    expect(pool.step(new Float32Array(10).fill(1)).rewardParts_NG![9]).toBeCloseTo(-0.04, 6);
  });

  test("gives the reason of a failure in a thread, then and later", () => {
    const broken = pool.save().map((copy, n) => (n === 4 ? { ...copy, state: [1, 2, 3] } : copy));
    expect(() => pool.restore(broken)).toThrow(/pool of MuJoCo environments is gone: thread 1 failed: /);
    expect(() => pool.step(new Float32Array(10))).toThrow(/thread 1 failed: /);
  });
});

test("a thread that does not answer is an error and no wait without end", async () => {
  const pool = await openMujocoPool(options, task, { numEnvs: 5, numThreads: 1, timeoutMs: 0 });
  // Now and then an answer is there before anyone has looked.
  const resetOften = () => Array.from({ length: 1000 }, (_, seed) => pool.reset(seed));
  expect(resetOften).toThrow(/1 of 1 threads did not answer within 0 ms/);
  await pool.close();
  expect(() => pool.reset(0)).toThrow(/did not answer/);
});

test("a thread that has ended is an error", async () => {
  const workers: Worker[] = [];
  const startThread: typeof startMujocoThread = (data) => {
    const worker = startMujocoThread(data);
    workers.push(worker);
    return worker;
  };
  const pool = await openMujocoPool(options, task, { numEnvs: 5, numThreads: 1, startThread });
  pool.reset(0);
  await workers[0]!.terminate();
  expect(() => pool.step(new Float32Array(10))).toThrow(/thread 0 ended with code 1/);
  await pool.close();
});

test("a thread that cannot start rejects", async () => {
  const opening = openMujocoPool(JSON.parse('{ "type": "nothing" }'), task, { numEnvs: 5, numThreads: 1 });
  await expect(opening).rejects.toThrow(/undefined/);
});

/** Everything that random actions lead to. */
function play(env: MujocoEnv | MujocoPool, numSteps: number): number[][] {
  const random = new Random(5);
  return Array.from({ length: numSteps }, () => {
    const actions = Float32Array.from({ length: env.numEnvs * env.actions.size }, () => 2 * random.uniform() - 1);
    const step = env.step(actions);
    return [
      ...step.observations_NO,
      ...step.rewards_N,
      ...(step.rewardParts_NG ?? []),
      ...step.truncated_N,
      ...step.finalObservations_NO,
    ];
  });
}

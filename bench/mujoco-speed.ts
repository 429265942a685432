/**
 * MuJoCo environments: steps per second of 16 copies with random actions, in one thread and in a pool of two, beside Gymnasium.
 *
 * node --import tsx bench/mujoco-speed.ts [rounds] [python]
 * `python` is an interpreter with `pip install "gymnasium[mujoco]" mujoco==3.14.0`; without it that column is left out. Gymnasium
 * steps one copy, which is the fastest it does in one thread. Push is ours alone. "Per core" divides by processor time, which
 * other programs hardly disturb; the last two columns divide by time on the clock.
 */
import { execFileSync } from "node:child_process";
import { createVecEnv } from "../src/control/envs/vec-catalog.ts";
import type { VecEnv } from "../src/control/envs/vec-env.ts";
import { Random } from "../src/random/random.ts";
import { printTable, writeResult } from "./report.ts";
import { measure, type Sample, type Timing, type Turn, takeTurns } from "./take-turns.ts";

const NUM_ENVS = 16;
const [rounds = "5", python] = process.argv.slice(2);

/** A name of ours, Gymnasium's, and steps of single copies per measurement. */
const tasks = [
  ["half-cheetah", "HalfCheetah-v4", 8000],
  ["hopper", "Hopper-v4", 4000],
  ["walker2d", "Walker2d-v4", 4000],
  ["inverted-pendulum", "InvertedPendulum-v4", 16000],
  ["push", null, 32000],
] as const;

/** Prints the milliseconds of wall and of processor time of so many steps, with resets where episodes end. */
const GYMNASIUM = `
import sys, time, warnings
warnings.filterwarnings("ignore")
import gymnasium, numpy
gymnasium.logger.min_level = 50
env = gymnasium.make(sys.argv[1])
env.reset(seed=0)
space = env.action_space
actions = numpy.random.default_rng(0).uniform(space.low, space.high, (int(sys.argv[2]),) + space.shape).astype(numpy.float32)
wall, cpu = time.perf_counter(), time.process_time()
for action in actions:
    _, _, terminated, truncated, _ = env.step(action)
    if terminated or truncated:
        env.reset()
print((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000)
`;

interface Result {
  readonly env: string;
  readonly numSteps: number;
  readonly timings: Readonly<Record<string, Timing>>;
}

const results: Result[] = [];
for (const [type, gymnasiumName, numSteps] of tasks) {
  const here = await createVecEnv({ type, numEnvs: NUM_ENVS });
  const pool = await createVecEnv({ type, numEnvs: NUM_ENVS, numThreads: 2 });
  const turns: Record<string, Turn> = {
    here: async () => [stepAll(here, numSteps)],
    pool: async () => [stepAll(pool, numSteps)],
  };
  if (python !== undefined && gymnasiumName !== null) {
    turns.gymnasium = async () => [stepInGymnasium(python, gymnasiumName, numSteps)];
  }
  const timings = await takeTurns(turns, Number(rounds));
  results.push({ env: type, numSteps, timings });
  await here.close?.();
  await pool.close?.();
}
report();

function stepAll(env: VecEnv, numSteps: number): Sample {
  if (env.actions.kind === "discrete") throw new Error("these tasks have motors");
  const { size, low, high } = env.actions;
  const random = new Random(0);
  const rows = Array.from({ length: 64 }, () =>
    Float32Array.from({ length: NUM_ENVS * size }, () => low + (high - low) * random.uniform()),
  );
  env.reset(0);
  return measure(() => {
    for (let tick = 0; tick < numSteps / NUM_ENVS; tick++) env.step(rows[tick % rows.length]!);
  });
}

function stepInGymnasium(interpreter: string, name: string, numSteps: number): Sample {
  const printed = execFileSync(interpreter, ["-c", GYMNASIUM, name, String(numSteps)], { encoding: "utf8" });
  const [wall = Number.NaN, cpu = Number.NaN] = printed.trim().split(" ").map(Number);
  return { wall, cpu };
}

function report(): void {
  const perSecond = (numSteps: number, ms: number | undefined) =>
    ms === undefined ? "-" : ((1000 * numSteps) / ms).toFixed(0);
  printTable(
    `Steps per second, ${NUM_ENVS} copies`,
    ["environment", "per core", "Gymnasium per core", "ours / Gymnasium", "pool per core", "one thread", "pool of 2"],
    results.map(({ env, numSteps, timings: { here, pool, gymnasium } }) => [
      env,
      perSecond(numSteps, here?.cpu.median),
      perSecond(numSteps, gymnasium?.cpu.median),
      here === undefined || gymnasium === undefined ? "-" : (gymnasium.cpu.median / here.cpu.median).toFixed(2),
      perSecond(numSteps, pool?.cpu.median),
      perSecond(numSteps, here?.wall.median),
      perSecond(numSteps, pool?.wall.median),
    ]),
  );
  writeResult("mujoco-speed", { settings: { numEnvs: NUM_ENVS, rounds: Number(rounds) }, results });
}

/**
 * Environment steps per second of a whole PPO loop, beside the same in Python: Gymnasium's environments, the same libtorch.
 *
 * node --import tsx bench/control-speed.ts [rounds] [--site <site-packages with gymnasium and mujoco>]
 * Both sides take turns, an iteration (rollout and updates) each, on one thread. The Python side is written as single-file
 * implementations do. Bar: at least twice as many steps per second, by processor time, which other programs hardly disturb.
 */
import { parseArgs } from "node:util";
import { run as cartPole } from "../examples/recipes/cart-pole.ts";
import { run as halfCheetah } from "../examples/recipes/half-cheetah.ts";
import type { ControlConfig } from "../src/control/control-config.ts";
import type { VecEnv } from "../src/control/envs/vec-env.ts";
import { buildPpo } from "../src/control/ppo/learner.ts";
import { openVecEnv } from "../src/control/run/open-vec-env.ts";
import { resolveControl } from "../src/control/run/prepare-control.ts";
import { setNumThreads } from "../src/torch/memory.ts";
import { PythonChild } from "./python-child.ts";
import { printTable, writeResult } from "./report.ts";
import { measure, type Sample, type Timing, takeTurns } from "./take-turns.ts";

const bar = 2;
const { values, positionals } = parseArgs({ options: { site: { type: "string" } }, allowPositionals: true });
const rounds = Number(positionals[0] ?? 12);
if (values.site !== undefined) process.env.PYTHONPATH = values.site;

const subjects = [
  { name: "cart-pole", file: cartPole, gymnasium: "CartPole-v1" },
  { name: "half-cheetah", file: halfCheetah, gymnasium: "HalfCheetah-v4" },
] as const;

/** Milliseconds for the steps of one iteration. */
interface Result {
  readonly name: string;
  readonly stepsPerIteration: number;
  readonly timings: Readonly<Record<"reroll" | "python" | "rerollEnv" | "pythonEnv", Timing>>;
  /** How many times as many steps per second: of processor time, and of wall time. */
  readonly ratioOfCpu: number;
  readonly ratioOfWall: number;
}

setNumThreads(1);
const results: Result[] = [];
for (const subject of subjects) results.push(await compare(subject));
report();
process.exit(0);

async function compare({ name, file, gymnasium }: (typeof subjects)[number]): Promise<Result> {
  const { config } = resolveControl(file, [], {});
  const env = await openVecEnv(config);
  const { collector, trainer } = buildPpo(config, env);
  const bare = await openVecEnv(config);
  bare.reset(1);
  const python = new PythonChild("ppo_control.py", "passive");
  await python.request("start", settingsOf(config, gymnasium));
  const { ticks } = config.loop;
  let version = 0;
  const timings = await takeTurns(
    {
      reroll: async () => [measure(() => void trainer.step(collector.collect(ticks, version++)))],
      python: async () => {
        const { rollout, train } = await python.request<Record<"rollout" | "train", Sample>>("iterate");
        return [{ wall: rollout.wall + train.wall, cpu: rollout.cpu + train.cpu }];
      },
      rerollEnv: async () => [measure(() => stepAlone(bare, ticks))],
      pythonEnv: async () => [await python.request<Sample>("step", { count: ticks })],
    },
    rounds,
    { warmUpRounds: 3 },
  );
  await python.stop();
  const ratio = (kind: "cpu" | "wall") => timings.python[kind].median / timings.reroll[kind].median;
  const stepsPerIteration = ticks * env.numEnvs;
  return { name, stepsPerIteration, timings, ratioOfCpu: ratio("cpu"), ratioOfWall: ratio("wall") };
}

function settingsOf({ env, loop, algorithm, policy }: ControlConfig, gymnasium: string) {
  const { epochs, minibatches, lr, entropy } = algorithm;
  const settings = { epochs, minibatches, lr, entropy, normalized: policy.normalizeObservations };
  return { env: gymnasium, envs: env.numEnvs, ticks: loop.ticks, ...settings };
}

function stepAlone(env: VecEnv, ticks: number): void {
  const size = env.actions.kind === "discrete" ? 1 : env.actions.size;
  const actions_NA = new Float32Array(env.numEnvs * size);
  for (let t = 0; t < ticks; t++) {
    // Any valid actions that differ: 0 and 1 are indices as well as torques.
    for (let i = 0; i < actions_NA.length; i++) actions_NA[i] = (t + i) % 2;
    env.step(actions_NA);
  }
}

function report(): void {
  const speed = (steps: number, ms: number) => Math.round((1000 * steps) / ms).toLocaleString("en");
  printTable(
    "Steps of environments per second of processor time, median",
    [
      "task",
      "reroll",
      "Python",
      "ratio",
      "ratio of wall time",
      "reroll, environment alone",
      "Python, environment alone",
    ],
    results.map(({ name, stepsPerIteration: steps, timings, ratioOfCpu, ratioOfWall }) => [
      name,
      speed(steps, timings.reroll.cpu.median),
      speed(steps, timings.python.cpu.median),
      ratioOfCpu.toFixed(2),
      ratioOfWall.toFixed(2),
      speed(steps, timings.rerollEnv.cpu.median),
      speed(steps, timings.pythonEnv.cpu.median),
    ]),
  );
  for (const { name, ratioOfCpu } of results) {
    const isMet = ratioOfCpu >= bar;
    console.log(
      `${name}: ${ratioOfCpu.toFixed(2)} times as fast as Python, ${isMet ? "" : "NOT "}the ${bar} that are asked.`,
    );
  }
  writeResult("control-speed", { unit: "ms per iteration", bar, results });
}

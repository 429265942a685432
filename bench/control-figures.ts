/**
 * The pictures of control in the documentation: learning curves, and a policy at work.
 *
 * node --import tsx bench/control-figures.ts [--steps 300000] [--seed 3]
 * Curves are those of bench/results/control-learning.json: one file for the classic tasks and one for MuJoCo's. The strip shows
 * the most likely actions of a hopper policy that is trained here first.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { run as hopper } from "../examples/recipes/hopper.ts";
import { PolicyActor } from "../src/control/collector/policy-actor.ts";
import { createMujocoEnv } from "../src/control/envs/mujoco/create-mujoco-env.ts";
import { MujocoEnv } from "../src/control/envs/mujoco/mujoco-env.ts";
import type { MujocoFrame } from "../src/control/envs/mujoco/mujoco-frame.ts";
import { renderStrip } from "../src/control/envs/mujoco/render-strip.ts";
import type { ControlPolicy } from "../src/control/policy/control-policy.ts";
import { buildPpo } from "../src/control/ppo/learner.ts";
import { openVecEnv } from "../src/control/run/open-vec-env.ts";
import { resolveControl } from "../src/control/run/prepare-control.ts";
import { noGrad } from "../src/torch/autograd.ts";
import { setNumThreads } from "../src/torch/memory.ts";
import { tensorScope } from "../src/torch/scope.ts";
import type { ControlLearningRun } from "./control-learning-summary.ts";
import { curveFigure, type Panel } from "./curve-figure.ts";

const { values } = parseArgs({
  options: { steps: { type: "string", default: "300000" }, seed: { type: "string", default: "3" } },
});

/** Ticks between the pictures of a strip, and before the first: the start is the same for every policy. */
const TICKS_BETWEEN = 10;
const TICKS_BEFORE = 100;
const SECONDS_PER_TICK = 0.008;
const NUM_FRAMES = 8;

const { runs } = JSON.parse(readFileSync(new URL("results/control-learning.json", import.meta.url), "utf8")) as {
  readonly runs: readonly ControlLearningRun[];
};
const title = "Mean return of the last 100 episodes: three seeds, mean and spread";
const classic = [panelOf("cart-pole", [0, 500]), panelOf("acrobot", [-500, 0]), panelOf("pendulum", [-1600, 0])];
writeImage("control-learning", curveFigure({ title, panels: classic }));
const bodies = [panelOf("half-cheetah", [-1000, 3000]), panelOf("hopper", [0, 4000])];
writeImage("control-learning-mujoco", curveFigure({ title, panels: bodies }));
writeImage("control-hopper", await drawHopper());

function panelOf(recipe: string, range: readonly [number, number]): Panel {
  const curves = runs.filter((run) => run.recipe === recipe).map(({ curve }) => curve);
  const points = (curves[0] ?? []).map(({ envSteps }, i) => {
    const returns = curves.map((curve) => curve[i]!.value);
    const mean = returns.reduce((sum, value) => sum + value, 0) / returns.length;
    return { x: envSteps, y: mean, low: Math.min(...returns), high: Math.max(...returns) };
  });
  // Returns exist from the end of the first episode on.
  const known = points.filter(({ y }) => Number.isFinite(y));
  return { title: recipe, x: "steps", range, curves: [{ name: "", points: known }] };
}

async function drawHopper(): Promise<string> {
  const policy = await train();
  const env = await createMujocoEnv({ type: "hopper", numEnvs: 1 });
  if (!(env instanceof MujocoEnv)) throw new Error("only environments in this thread show their shapes");
  const { numEnvs, observationSize } = env;
  const actor = new PolicyActor(policy, { numEnvs, observationSize, seed: 0, choice: "mode" });
  const frames: MujocoFrame[] = [];
  let { observations_NO } = env.reset(0);
  for (let tick = 0; frames.length < NUM_FRAMES; tick++) {
    if (tick >= TICKS_BEFORE && (tick - TICKS_BEFORE) % TICKS_BETWEEN === 0) frames.push(env.frame(0));
    const { actions_NA } = noGrad(() => tensorScope(() => actor.act(observations_NO)));
    const step = env.step(actions_NA);
    if (step.terminated_N[0] === 1) throw new Error(`it fell after ${tick + 1} ticks: train for more steps`);
    observations_NO = step.observations_NO;
  }
  await env.close();
  const captions = frames.map((_, i) => `${(SECONDS_PER_TICK * (TICKS_BEFORE + i * TICKS_BETWEEN)).toFixed(2)} s`);
  return renderStrip(frames, { view: "side", captions });
}

async function train(): Promise<ControlPolicy> {
  const { config } = resolveControl(hopper, [`loop.steps=${values.steps}`, `seed=${values.seed}`], {});
  setNumThreads(config.threads);
  const env = await openVecEnv(config);
  const { collector, trainer, numSteps } = buildPpo(config, env);
  for (let step = 0; step < numSteps; step++) {
    const rollout = collector.collect(config.loop.ticks, step);
    trainer.step(rollout);
    const returns = rollout.episodes.map((episode) => episode.return);
    const mean = returns.reduce((sum, value) => sum + value, 0) / returns.length;
    console.log(`rollout ${step + 1} of ${numSteps}: mean return ${mean.toFixed(0)}`);
  }
  await env.close?.();
  return trainer.policy;
}

function writeImage(name: string, svg: string): void {
  writeFileSync(new URL(`../docs/images/${name}.svg`, import.meta.url), svg);
}

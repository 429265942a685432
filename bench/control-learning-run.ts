/**
 * One control recipe with one seed, from the first step to the last: the curve of its returns.
 *
 * node --import tsx bench/control-learning-run.ts <recipe> <seed> --out <folder> [--steps 500000]
 * Writes <folder>/<recipe>-<seed>.json. A value is the mean return of the last 100 training episodes, chance in the actions
 * included: what published curves show. Seconds hold for the machine and the load that are written beside them.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { run as acrobot } from "../examples/recipes/acrobot.ts";
import { run as cartPole } from "../examples/recipes/cart-pole.ts";
import { run as halfCheetah } from "../examples/recipes/half-cheetah.ts";
import { run as hopper } from "../examples/recipes/hopper.ts";
import { run as pendulum } from "../examples/recipes/pendulum.ts";
import { EpisodeLog } from "../src/control/collector/episode-log.ts";
import { buildPpo } from "../src/control/ppo/learner.ts";
import { openVecEnv } from "../src/control/run/open-vec-env.ts";
import { resolveControl } from "../src/control/run/prepare-control.ts";
import { setNumThreads } from "../src/torch/memory.ts";
import type { ControlLearningPoint, ControlLearningRun } from "./control-learning-summary.ts";
import { describeMachine } from "./report.ts";

const recipes = { acrobot, "cart-pole": cartPole, "half-cheetah": halfCheetah, hopper, pendulum };
const NUM_POINTS = 50;

const { values, positionals } = parseArgs({
  options: { out: { type: "string" }, steps: { type: "string" } },
  allowPositionals: true,
});
const [recipe = "", seed = ""] = positionals;
if (!(recipe in recipes) || !/^\d+$/.test(seed) || values.out === undefined) {
  console.error(
    `Usage: control-learning-run <recipe> <seed> --out <folder>. Recipes: ${Object.keys(recipes).join(", ")}.`,
  );
  process.exit(2);
}
const sets = [`seed=${seed}`, ...(values.steps === undefined ? [] : [`loop.steps=${values.steps}`])];
const { config } = resolveControl(recipes[recipe as keyof typeof recipes], sets, {});
setNumThreads(config.threads);
const env = await openVecEnv(config);
const { collector, trainer, numSteps } = buildPpo(config, env);
const episodes = new EpisodeLog();
const curve: ControlLearningPoint[] = [];
const startedMs = performance.now();
for (let step = 1; step <= numSteps; step++) {
  const rollout = collector.collect(config.loop.ticks, step - 1);
  const metrics = { ...episodes.add(rollout), ...trainer.step(rollout).metrics };
  if (step % Math.ceil(numSteps / NUM_POINTS) !== 0 && step !== numSteps) continue;
  curve.push({
    envSteps: step * config.loop.ticks * env.numEnvs,
    seconds: Number(((performance.now() - startedMs) / 1000).toFixed(1)),
    value: Number((metrics["episode/return_100"] ?? Number.NaN).toFixed(2)),
  });
  const { envSteps, seconds, value } = curve.at(-1)!;
  const shown = ["policy/approx_kl", "policy/entropy", "value/explained_variance", "train/lr"] as const;
  const rest = shown.map((name) => `${name} ${metrics[name]?.toPrecision(3)}`).join(", ");
  console.log(`${recipe} seed ${seed}: ${value} after ${envSteps} steps, ${seconds} s; ${rest}`);
}
await env.close?.();
const result: ControlLearningRun = {
  ...{ recipe, seed: Number(seed), curve },
  ...{ machine: describeMachine(), date: new Date().toISOString() },
};
mkdirSync(values.out, { recursive: true });
writeFileSync(join(values.out, `${recipe}-${seed}.json`), `${JSON.stringify(result, null, 2)}\n`);

/**
 * One arm of the adaptation benchmark with one seed, in one thread.
 *
 * node --import tsx bench/adaptation-arm.ts "<arm>" <seed> --out <folder> [--scale 1]
 * Writes <folder>/<arm>-<seed>.json. `--scale` multiplies the steps.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { AdaptationActor } from "../src/control/adaptation/actor.ts";
import { buildAdaptation } from "../src/control/adaptation/learner.ts";
import { phaseAt } from "../src/control/adaptation/phase-plan.ts";
import type { AdaptationPhase } from "../src/control/adaptation/policy/phases.ts";
import type { ControlActor } from "../src/control/collector/collector.ts";
import { PolicyActor } from "../src/control/collector/policy-actor.ts";
import type { VecEnv } from "../src/control/envs/vec-env.ts";
import { evaluateControl } from "../src/control/evaluation.ts";
import { buildPpo } from "../src/control/ppo/learner.ts";
import { noGrad } from "../src/torch/autograd.ts";
import { setNumThreads } from "../src/torch/memory.ts";
import {
  type AdaptationRun,
  ARMS,
  type Arm,
  adaptationSettings,
  EVALUATIONS,
  NUM_EPISODES,
  openEvaluation,
  openTraining,
  plainSettings,
  type Returns,
} from "./adaptation-plan.ts";
import { RecurrentTrainer } from "./recurrent-ppo.ts";
import { describeMachine } from "./report.ts";
import { withoutGroup } from "./without-group.ts";

const { values, positionals } = parseArgs({
  options: { out: { type: "string" }, scale: { type: "string", default: "1" } },
  allowPositionals: true,
});
const [arm, seed] = [positionals[0] as Arm, Number(positionals[1])];
if (!(arm in ARMS) || !Number.isInteger(seed) || values.out === undefined) {
  console.error(`Usage: adaptation-arm <arm> <seed> --out <folder>. Arms: ${Object.keys(ARMS).join("; ")}.`);
  process.exit(2);
}
const scale = Number(values.scale);
setNumThreads(1);
const startedMs = performance.now();
const stages: AdaptationRun["stages"][number][] = [];
if (arm === "plain PPO") await trainPlain();
else if (arm === "no adaptation") await trainTeacher({ isBlind: true });
else if (arm === "teacher alone") await trainTeacher({ isBlind: false });
else if (arm === "recurrent PPO") await trainRecurrent();
else await trainAdapting();
const run: AdaptationRun = {
  ...{ arm, seed, stages, seconds: (performance.now() - startedMs) / 1000 },
  ...{ machine: describeMachine(), date: new Date().toISOString() },
};
mkdirSync(values.out, { recursive: true });
writeFileSync(join(values.out, `${arm.replace(/\W+/g, "-")}-${seed}.json`), `${JSON.stringify(run)}\n`);

async function trainAdapting(): Promise<void> {
  const config = adaptationSettings(arm, seed, scale);
  const env = await openTraining();
  const { actor, collector, trainer, plan } = buildAdaptation(config, env);
  const { policy } = trainer;
  const stepsPerRollout = config.loop.ticks * env.numEnvs;
  const record = (stage: string, step: number, phase: AdaptationPhase) =>
    evaluate(
      stage,
      step * stepsPerRollout,
      (numEnvs) => new AdaptationActor(policy, { phase, numEnvs, seed, choice: "mode" }),
    );
  let step = 0;
  for (let phase = phaseAt(plan, step); phase !== null; ) {
    trainer.enter(phase);
    actor.enter(phase);
    trainer.step(collector.collect(config.loop.ticks, step));
    step++;
    const next = phaseAt(plan, step);
    if (next !== phase) {
      if (phase === "train") await record("teacher", step, "train");
      // The student as it acts in the phase that ends; after train, as the phase that follows finds it.
      await record(`student after ${phase}`, step, phase === "train" ? "adapt" : phase);
    }
    phase = next;
  }
}

/** PPO alone on teacher and encoder, from the first step to the last; where it is blind, with latents that are 0 and stay it. */
async function trainTeacher({ isBlind }: { readonly isBlind: boolean }): Promise<void> {
  const settings = adaptationSettings(arm, seed, scale);
  const config = { ...settings, algorithm: { ...settings.algorithm, adaptEpochs: 0 } };
  const env = await openTraining();
  const { collector, trainer, plan } = buildAdaptation(config, env);
  const { policy } = trainer;
  if (isBlind) {
    policy.encoderPriv.setTrainable(false);
    noGrad(() => {
      for (const parameter of policy.encoderPriv.head.parameters()) parameter.fill_(0);
    });
  }
  const numSteps = plan.reduce((sum, { iterations }) => sum + iterations, 0);
  for (let step = 0; step < numSteps; step++) trainer.step(collector.collect(config.loop.ticks, step));
  await evaluate(
    isBlind ? "policy" : "teacher",
    numSteps * config.loop.ticks * env.numEnvs,
    (numEnvs) => new AdaptationActor(policy, { phase: "train", numEnvs, seed, choice: "mode" }),
  );
}

async function trainRecurrent(): Promise<void> {
  const config = adaptationSettings(arm, seed, scale);
  const env = await openTraining();
  const { actor, collector, trainer, options, plan } = buildAdaptation(config, env);
  const { policy } = trainer;
  const recurrent = new RecurrentTrainer(policy, options);
  actor.enter("adapt");
  const numSteps = plan.reduce((sum, { iterations }) => sum + iterations, 0);
  for (let step = 0; step < numSteps; step++) recurrent.step(collector.collect(config.loop.ticks, step));
  await evaluate(
    "policy",
    numSteps * config.loop.ticks * env.numEnvs,
    (numEnvs) => new AdaptationActor(policy, { phase: "adapt", numEnvs, seed, choice: "mode" }),
  );
}

async function trainPlain(): Promise<void> {
  const config = plainSettings(seed, scale);
  const env = withoutGroup(await openTraining(), "priv");
  const { collector, trainer, numSteps } = buildPpo(config, env);
  for (let step = 0; step < numSteps; step++) trainer.step(collector.collect(config.loop.ticks, step));
  const { observationSize } = env;
  await evaluate(
    "policy",
    numSteps * config.loop.ticks * env.numEnvs,
    (numEnvs) => new PolicyActor(trainer.policy, { numEnvs, observationSize, seed, choice: "mode" }),
    (full) => withoutGroup(full, "priv"),
  );
}

async function evaluate(
  stage: string,
  envSteps: number,
  actorFor: (numEnvs: number) => ControlActor,
  view: (env: VecEnv) => VecEnv = (env) => env,
): Promise<void> {
  const returns: Record<string, number> = {};
  for (const name of Object.keys(EVALUATIONS) as (keyof typeof EVALUATIONS)[]) {
    const env = view(await openEvaluation(name));
    const metrics = evaluateControl(env, actorFor(env.numEnvs), { episodes: NUM_EPISODES, seed: 12345 });
    returns[name] = Number(metrics["reward/mean"]!.toFixed(2));
    await env.close?.();
  }
  stages.push({ stage, envSteps, returns: returns as Returns });
  const shown = Object.entries(returns).map(([name, value]) => `${name} ${value.toFixed(1)}`);
  console.log(
    `${arm}, seed ${seed}, ${stage}: ${shown.join(", ")}; ${((performance.now() - startedMs) / 1000).toFixed(0)} s`,
  );
}

/**
 * A whole control run: from a settled config to a trained policy in a run folder.
 *
 * Builds the parts, runs the loop, and attaches recording, validation and checkpoints to it. A resumed run gives the numbers of
 * one that never stopped if its environments can be saved; others start new episodes, and the run says so. Blocks the thread
 * it is called in: see control-worker.ts.
 */

import type { Clock } from "../../flow/clock.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import type { LoopObserver } from "../../loops/loop-parts.ts";
import { nothingHeld } from "../../models/formats/file-sink.ts";
import { deriveSeed } from "../../random/random.ts";
import { type Checkpoint, Checkpoints } from "../../run/checkpoint.ts";
import { RunProgress } from "../../run/run-progress.ts";
import type { OpenRun } from "../../run/run-training.ts";
import type { TrainResult } from "../../run/train-run.ts";
import type { Validate } from "../../run/validation.ts";
import { setNumThreads } from "../../torch/memory.ts";
import type { AnyControlConfig } from "../adaptation/config.ts";
import { adaptationLearner } from "../adaptation/learner.ts";
import type { CollectorState } from "../collector/collector.ts";
import { EpisodeLog } from "../collector/episode-log.ts";
import type { ControlLearner } from "../control-learner.ts";
import { runControlLoop } from "../control-loop.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { ppoLearner } from "../ppo/learner.ts";
import { openVecEnv } from "./open-vec-env.ts";

/** The part of a checkpoint that is about the rollout. */
interface SavedRollout {
  /** null if the environments cannot be saved. */
  readonly collector: CollectorState | null;
  readonly returns: readonly number[];
}

/** Runs to the end, or to where the signal stops it. */
export async function trainControl(config: AnyControlConfig, open: OpenRun, clock: Clock): Promise<TrainResult> {
  setNumThreads(config.threads);
  const env = await openVecEnv(config);
  const validationEnv = config.validation === null ? null : await openVecEnv(config);
  try {
    return await train(config, { env, validationEnv }, open, clock);
  } finally {
    await env.close?.();
    await validationEnv?.close?.();
  }
}

interface ControlEnvs {
  readonly env: VecEnv;
  readonly validationEnv: VecEnv | null;
}

async function train(
  config: AnyControlConfig,
  { env, validationEnv }: ControlEnvs,
  { folder, tracker, signal, isResumed }: OpenRun,
  clock: Clock,
): Promise<TrainResult> {
  const checkpoints = new Checkpoints(folder, config.checkpoint.keep);
  const saved = isResumed ? await checkpoints.latest() : null;
  const learner = config.kind === "adaptation" ? adaptationLearner(config, env) : ppoLearner(config, env);
  const { collector } = learner;
  const rollouts = saved?.state.rollout as SavedRollout | undefined;
  if (saved !== null) for (const sentence of resume(learner, saved, rollouts!)) tracker.note(sentence);
  const episodes = new EpisodeLog(rollouts?.returns);
  const progress = new RunProgress({
    config,
    trainer: {
      saveModel: async (to) => {
        learner.saveModel(to);
        return nothingHeld;
      },
      saveState: async (to) => {
        learner.saveState(to);
        return nothingHeld;
      },
    },
    tracker,
    checkpoints,
    validate: validationEnv === null ? null : validationOf(config, learner, validationEnv),
    position: () => {
      const rollout: SavedRollout = { collector: collector.save(), returns: episodes.returns };
      // Environments save plain data, by their contract.
      return { rollout: rollout as unknown as JsonValue, replay: null };
    },
    signal,
    clock,
    saved,
  });
  const position = await runControlLoop(
    {
      ...(learner.beforeStep && { beforeStep: learner.beforeStep }),
      collect: (numTicks, version) => tracker.span("rollout", async () => collector.collect(numTicks, version)),
      train: async (rollout) => ({
        ...episodes.add(rollout),
        ...(await tracker.span("train", async () => learner.train(rollout))),
      }),
      observer: withSpeed(progress, clock),
    },
    saved?.state ?? { step: 0, version: 0 },
    { numSteps: learner.numSteps, ticksPerStep: config.loop.ticks },
  );
  return progress.finish(position);
}

/** Restores a checkpoint. Returns what the user should know about it. */
function resume(
  { collector, loadCheckpoint }: ControlLearner,
  { folder, state }: Checkpoint,
  { collector: collected }: SavedRollout,
): readonly string[] {
  loadCheckpoint(folder);
  const sentence = `Going on from step ${state.step}.`;
  if (collected === null) return [sentence, "These environments cannot be saved: their episodes start again."];
  collector.restore(collected);
  return [sentence];
}

function validationOf({ validation, seed }: AnyControlConfig, { evaluate }: ControlLearner, env: VecEnv): Validate {
  const episodes = validation?.episodes ?? 0;
  return async () => {
    const metrics = evaluate(env, { episodes, seed: deriveSeed(seed, "validation") });
    return {
      metrics: Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`validation/${name}`, value])),
    };
  };
}

/** Adds environment steps per second, over everything that happened since the last step. */
function withSpeed(observer: RunProgress, clock: Clock): LoopObserver {
  let last = clock();
  return {
    onStart: async (position) => {
      const answer = await observer.onStart(position);
      last = clock();
      return answer;
    },
    onStep: async (position, metrics) => {
      const now = clock();
      const speed = (1000 * (metrics["rollout/env_steps"] ?? 0)) / Math.max(now - last, Number.MIN_VALUE);
      last = now;
      return observer.onStep(position, { ...metrics, "throughput/env_steps": speed });
    },
  };
}

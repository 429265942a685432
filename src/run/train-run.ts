/**
 * A whole run: from a settled config to trained weights in a run folder.
 *
 * Builds the parts, runs the loop, and hangs recording, validation and checkpoints onto it. Everything
 * started here is closed here, whatever happens.
 */
import { join } from "node:path";
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { LoopPosition } from "../loops/loop-parts.ts";
import { type LoopOptions, runRolloutLoop } from "../loops/rollout-loop.ts";
import type { Machines } from "../machines/machines.ts";
import type { RunTracker } from "../tracking/run-tracker.ts";
import { buildExperience } from "./build-experience.ts";
import { buildScheduler, buildSources } from "./build-rollout.ts";
import { Checkpoints, type LoopState } from "./checkpoint.ts";
import { openParts, type RunParts } from "./open-parts.ts";
import { recordedParts } from "./recorded-parts.ts";
import type { RunConfig } from "./run-config.ts";
import { goingOn, RunProgress } from "./run-progress.ts";
import { sleepsWhileTraining } from "./sleeps-while-training.ts";
import { expectProgress } from "./stop-on-skips.ts";
import { memoryMetrics } from "./trainer-workers.ts";
import { buildValidation } from "./validation.ts";

interface TrainOptions {
  readonly folder: string;
  readonly tracker: RunTracker;
  readonly signal: AbortSignal;
  /** See EngineParts. */
  readonly asked?: AbortSignal;
  /** Default: whatever is opened is waited for. */
  readonly opening?: Opening;
  readonly clock: Clock;
  /** The run file, for threads that load it for themselves. Absent for configs that come from elsewhere. */
  readonly runFile?: string;
  /** Whether to resume from the latest checkpoint in the folder. */
  readonly isResumed: boolean;
  /** Workers of other machines, where the run has some. */
  readonly machines?: Machines;
}

/** Waits for the parts of a run. Rejects at once where the run is stopped before its first step: nothing is lost with what is half open. */
export type Opening = <Parts>(parts: Promise<Parts>) => Promise<Parts>;

export interface TrainResult {
  readonly position: LoopPosition;
  /** The best validation, and the step it belongs to. */
  readonly best: LoopState["best"];
  readonly lastMetrics: Metrics;
  /** The weights at the end, in Hugging Face layout. */
  readonly modelFolder: string;
}

export async function trainRun(config: RunConfig, options: TrainOptions): Promise<TrainResult> {
  const onError = (cause: unknown) => options.tracker.note(`The endpoint of the agent failed: ${String(cause)}`);
  const recipe = buildRecipe(config.algorithm as RecipeChoice);
  const onOverruled = (message: string) => options.tracker.note(`The agent's endpoint: ${message}`);
  const { opening = (parts) => parts } = options;
  const opened = openParts(config, recipe, { ...options, onError, onOverruled });
  const parts = await opening(opened).catch((cause: unknown) => {
    // Parts that come after the run was stopped are closed when they are there, and nobody waits for that.
    void opened.then(
      (late) => late.close(),
      () => {},
    );
    throw cause;
  });
  try {
    return await trainWith(parts, config, recipe, options);
  } finally {
    await parts.close();
  }
}

/** The run itself, on parts that are open and stay its caller's: what `trainRun` does with those that it opens. */
export async function trainWith(
  parts: RunParts,
  config: RunConfig,
  recipe: Recipe,
  options: TrainOptions,
): Promise<TrainResult> {
  const { signal, clock, tracker, folder } = options;
  const { needs } = recipe;
  const sleeps = sleepsWhileTraining(config, recipe);
  const { world, engine, past, trainer } = parts;
  const checkpoints = new Checkpoints(folder, config.checkpoint.keep);
  const { sources, statements } = await buildSources(config, world);
  for (const statement of [...engine.statements, ...statements]) tracker.note(statement);
  const episodes = parts.trainingEpisodes();
  tracker.setWorkers(await parts.workers());
  const scheduler = buildScheduler(config, episodes, sources, clock, {
    ...(needs.includes("greedyOf") && { runGreedy: parts.episodesAt(0) }),
    onEvent: (event) => tracker.sampleEvent(event),
    onDroppedPrompt: nameFirst((text) => tracker.note(text)),
  });
  try {
    const saved = options.isResumed ? await checkpoints.latest() : null;
    const experience = buildExperience(config);
    if (saved !== null) {
      await trainer.loadState(join(saved.folder, "state"));
      await past.restore(join(saved.folder, "state"));
      await scheduler.restore(saved.state.rollout);
      experience.restore(saved.state.replay);
      tracker.note(goingOn(saved.state.step, config.loop.steps));
    }
    const validating = parts.episodesAt(config.validation?.temperature ?? 0);
    const progress = new RunProgress({
      config,
      trainer: past.savedWith(trainer),
      tracker,
      checkpoints,
      validate: config.validation === null ? null : buildValidation(config, world, validating, clock),
      position: () => ({ rollout: scheduler.position(), replay: experience.position() }),
      signal,
      clock,
      saved,
    });
    const loop = recordedParts(
      {
        rollout: scheduler,
        experience,
        trainer: {
          step: async (batch, stepOptions) => {
            // Where rollout and training take turns, the new weights would empty the caches anyway.
            const sampling = engine.workers();
            await Promise.all([engine.rest(sleeps), world.rewardModels.rest()]);
            const trained = await trainer.step(batch, stepOptions).catch(async (cause: unknown) => {
              await engine.goOn(null);
              throw cause;
            });
            await engine.goOn(batch.version + 1);
            const report = await expectProgress(trained, batch.samples, folder);
            // Engines as they were before they rested: that is what the device had to hold.
            const names = new Set(sampling.map(({ name }) => name));
            const workers = [...sampling, ...(await parts.workers()).filter(({ name }) => !names.has(name))];
            tracker.setWorkers(workers);
            return { ...report, metrics: { ...report.metrics, ...memoryMetrics(workers) } };
          },
        },
        sync: past.follow(engine.syncFrom(trainer), trainer),
        observer: progress,
        groupsPerStep: config.rollout.groupsPerStep,
      },
      tracker,
    );
    const start = saved?.state ?? { step: 0 };
    const position = await runRolloutLoop(loop, start, loopOptions(config), signal);
    return await progress.finish(position);
  } finally {
    await scheduler.close();
    await checkpoints.close();
  }
}

/** Names the first few prompts that are left out; the others are counted. */
function nameFirst(note: (text: string) => void): (reason: string) => void {
  let numNamed = 0;
  return (reason) => {
    if (numNamed++ < NAMED_PROMPTS) note(`${reason.replace(/[.]?$/, ".")} It is left out.`);
    else if (numNamed === NAMED_PROMPTS + 1)
      note("Further prompts that are left out are counted in rollout/dropped_prompts.");
  };
}

const NAMED_PROMPTS = 3;

function loopOptions({ loop }: RunConfig): LoopOptions {
  return { numSteps: loop.steps, ...(loop.type === "async" && { syncInterval: loop.syncInterval }) };
}

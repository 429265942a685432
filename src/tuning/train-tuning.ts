/**
 * A whole tuning run: from prepared data to trained weights in a run folder.
 *
 * Starts the trainer in its thread, runs the loop, and attaches recording, validation and checkpoints to it. A resumed run gives the
 * numbers of one that never stopped: the order of the rows follows from the seed and the step.
 */
import { join } from "node:path";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import { runTuningLoop } from "../loops/tuning-loop.ts";
import { deriveSeed } from "../random/random.ts";
import { type Checkpoint, Checkpoints } from "../run/checkpoint.ts";
import { placeTrainer } from "../run/machine.ts";
import { policySource } from "../run/policy-source.ts";
import { prepareModel } from "../run/prepare-model.ts";
import { rankPlaces } from "../run/rank-places.ts";
import { RunProgress } from "../run/run-progress.ts";
import type { OpenRun } from "../run/run-training.ts";
import { expectProgress } from "../run/stop-on-skips.ts";
import type { TrainResult } from "../run/train-run.ts";
import type { Validate } from "../run/validation.ts";
import type { RankPlaces } from "../training/ranked-trainer.ts";
import { startTuning } from "../training/start-trainer.ts";
import type { TuningTrainer } from "../training/trainer.ts";
import { exampleOrder } from "./example-order.ts";
import { measuredSets } from "./measured-sets.ts";
import type { PreparedTuning } from "./prepare-tuning.ts";
import type { TuningConfig } from "./tuning-config.ts";

/** Trains to the end, or until the signal stops it. */
export async function trainTuning(run: PreparedTuning, open: OpenRun, clock: Clock): Promise<TrainResult> {
  const { config, data, numSteps } = run;
  const checkpoints = new Checkpoints(open.folder, config.checkpoint.keep);
  const saved = open.isResumed ? await checkpoints.latest() : null;
  if (saved !== null) expectSameData(saved.state.rollout, data.train.digest);
  const modelFolder = await prepareModel(config, [], open.folder);
  const places = await rankPlaces(config.training, open.machines, open.folder, [modelFolder]);
  const trainer = await openTuningTrainer(config, modelFolder, numSteps, places);
  try {
    return await train(run, { trainer, checkpoints, saved, clock }, open);
  } finally {
    await checkpoints.close();
    await trainer.close();
  }
}

/** A trainer as the run file says, on the weights of a folder. */
export function openTuningTrainer(
  config: TuningConfig,
  modelFolder: string,
  numSteps: number,
  places?: RankPlaces,
): Promise<TuningTrainer> {
  const { optimizer, schedule } = config.training;
  const source = {
    modelFolder,
    tokenizerFolder: modelFolder,
    ...policySource(config, placeTrainer(config)),
    objective: config.objective,
    reference: config.reference,
    optimizer,
    schedule,
    numUpdates: numSteps,
  };
  return startTuning(source, places);
}

interface TuningParts {
  readonly trainer: TuningTrainer;
  readonly checkpoints: Checkpoints;
  /** The checkpoint that the run resumes from; null for a new run. */
  readonly saved: Checkpoint | null;
  readonly clock: Clock;
}

async function train(
  { config, data, numSteps }: PreparedTuning,
  { trainer, checkpoints, saved, clock }: TuningParts,
  { folder, tracker, signal }: OpenRun,
): Promise<TrainResult> {
  const { loop, seed } = config;
  // Before the state is loaded: the reference is the model that the run starts from.
  const sets = await measuredSets(data, trainer, config, folder);
  if (saved !== null) {
    await trainer.loadState(join(saved.folder, "state"));
    tracker.note(`Going on from step ${saved.state.step}.`);
  }
  const progress = new RunProgress({
    config,
    trainer,
    tracker,
    checkpoints,
    validate: sets.validation === null ? null : validationOf(trainer, sets.validation),
    position: () => ({ rollout: { digest: data.train.digest }, replay: null }),
    signal,
    clock,
    saved,
  });
  const { length: numExamples } = sets.train;
  const numInAll = loop.steps === null ? loop.epochs * numExamples : Number.POSITIVE_INFINITY;
  const placesOf = exampleOrder({
    numExamples,
    rowsPerStep: loop.rowsPerStep,
    numInAll,
    seed: deriveSeed(seed, "data"),
  });
  const start = saved?.state.step ?? 0;
  if ((await progress.onStart({ step: start, version: start })) === "stop") {
    return progress.finish({ step: start, version: start });
  }
  const step = await runTuningLoop(
    {
      trainer: {
        step: async (examples) =>
          expectProgress(await tracker.span("train", () => trainer.step(examples)), examples, folder),
      },
      batchAfter: async (done) => placesOf(done).map((place) => sets.train[place]!),
      onStep: (done, metrics) =>
        progress.onStep(
          { step: done, version: done },
          { ...metrics, "train/epoch": Math.min(loop.rowsPerStep * done, numInAll) / numExamples },
        ),
    },
    start,
    numSteps,
    signal,
  );
  return progress.finish({ step, version: step });
}

/** The loss and the metrics of the objective on held-out rows, named `validation/...`. */
function validationOf(trainer: TuningTrainer, examples: readonly TuningExample[]): Validate {
  return async () => ({ metrics: validationMetrics(await trainer.evaluate(examples)) });
}

/** What a trainer found on held-out rows, under the names of validation. */
export function validationMetrics(metrics: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`validation/${name}`, value]));
}

const savedData = z.looseObject({ digest: z.string() });

/** A step stands for a place in the order of the rows, so they must be the same. */
function expectSameData(saved: JsonValue, digest: string): void {
  if (savedData.safeParse(saved).data?.digest === digest) return;
  throw new RerollError(
    "STATE_MISMATCH",
    "data gives other tokens than when the run was started: rows, columns, contextLength, tokenizer or the held-out share have changed. " +
      "Resume with the data of the saved run, or start a new run from its weights by setting model.path.",
  );
}

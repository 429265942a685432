/** A tuning run with its folder: the folder is made or reopened, and says in the end how it went. */
import { nameOfPath } from "../hub/hub-cache.ts";
import { type RunTrainingOptions, trackRun } from "../run/run-training.ts";
import type { TrainResult } from "../run/train-run.ts";
import { runClock } from "../tracking/run-clock.ts";
import type { PreparedTuning } from "./prepare-tuning.ts";
import { trainTuning } from "./train-tuning.ts";

/** Trains to the end, or until the signal stops it. */
export function runTuning(run: PreparedTuning, options: RunTrainingOptions): Promise<TrainResult> {
  const { config, numSteps, lines } = run;
  const tracked = {
    config,
    numSteps,
    recipe: config.objective.type,
    model: nameOfPath(config.model.path ?? config.model.preset ?? ""),
    modelPath: config.model.path,
    isEvaluable: config.validation !== null,
    isExportable: true,
    lines,
    folder: { trajectoryInterval: 0 },
  };
  return trackRun(tracked, options, (open) => trainTuning(run, open, runClock));
}

/**
 * A control run with its folder: a worker thread computes, and this thread writes to folder, console and trackers.
 *
 * The caller's event loop stays free. Whatever happens, `run.json` ends with finished, failed or interrupted.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../../errors/reroll-error.ts";
import { type OpenRun, type RunTrainingOptions, trackRun } from "../../run/run-training.ts";
import type { TrainResult } from "../../run/train-run.ts";
import type { RunTracker } from "../../tracking/run-tracker.ts";
import type { LoopStage } from "../../tracking/span-recorder.ts";
import { startWorker } from "../../workers/start-worker.ts";
import type { AnyControlConfig } from "../adaptation/config.ts";
import type { ControlThreadData, FromControlThread } from "./control-messages.ts";
import { numControlSteps, planControl } from "./prepare-control.ts";

/** Runs to the end, or to where the signal stops it. `sets` are the `--set` words, which the thread reads again. */
export function runControl(
  config: AnyControlConfig,
  sets: readonly string[],
  options: RunTrainingOptions,
): Promise<TrainResult> {
  const run = {
    config,
    numSteps: numControlSteps(config),
    recipe: config.algorithm.type,
    model: config.env.type,
    isExportable: false,
    lines: planControl(config),
    folder: { trajectoryInterval: 0 },
  };
  return trackRun(run, options, (open) => runThread(open, sets, options));
}

async function runThread(
  { folder, tracker, isResumed }: OpenRun,
  sets: readonly string[],
  { runFile, environment, signal }: RunTrainingOptions,
): Promise<TrainResult> {
  const stop = new SharedArrayBuffer(4);
  const askToStop = () => void Atomics.store(new Int32Array(stop), 0, 1);
  if (signal.aborted) askToStop();
  signal.addEventListener("abort", askToStop);
  const { REROLL_HOME } = environment;
  const data: ControlThreadData = { runFile, sets, environment: { REROLL_HOME }, folder, isResumed, stop };
  const worker = startWorker(new URL("control-worker", import.meta.url), data, { needsTypeScript: true });
  try {
    return await resultOf(worker, tracker);
  } finally {
    signal.removeEventListener("abort", askToStop);
    await worker.terminate();
  }
}

/** Passes on what the thread tells, until it tells how it ended. */
function resultOf(worker: Worker, tracker: RunTracker): Promise<TrainResult> {
  const endings = new Map<LoopStage, () => void>();
  return new Promise((resolve, reject) => {
    const hear = async (message: FromControlThread) => {
      switch (message.kind) {
        case "note":
          return tracker.note(message.text);
        case "log":
          return tracker.log(message.step, message.of, message.metrics);
        case "begin":
          return tracker.span(message.stage, () => new Promise<void>((end) => void endings.set(message.stage, end)));
        case "end":
          return endings.get(message.stage)?.();
        case "flush":
          await tracker.flush();
          return worker.postMessage(null);
        case "done":
          return resolve(message.result);
        case "failed":
          return reject(new RerollError(message.code, message.message));
      }
    };
    worker.on("message", (message: FromControlThread) => void hear(message).catch(reject));
    worker.once("error", reject);
    worker.once("exit", (code) =>
      reject(new RerollError("RUN_BROKEN", `The thread of the run ended with code ${code}.`)),
    );
  });
}

/**
 * A control run with its folder: a worker thread computes, and this thread writes to folder, console and trackers.
 *
 * The caller's event loop stays free. Whatever happens, `run.json` ends with finished, failed or interrupted.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { type OpenRun, type RunTrainingOptions, trackRun } from "../../run/run-training.ts";
import type { TrainResult } from "../../run/train-run.ts";
import type { RunTracker } from "../../tracking/run-tracker.ts";
import type { LoopStage } from "../../tracking/span-recorder.ts";
import { oneWay } from "../../workers/luggage.ts";
import { startInThread } from "../../workers/start-in-thread.ts";
import type { AnyControlConfig } from "../adaptation/config.ts";
import type { ControlHost, ControlListener, ControlSource } from "./control-host.ts";
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
    isEvaluable: true,
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
  const source: ControlSource = { runFile, sets, environment: { REROLL_HOME }, folder, isResumed, stop };
  const lost = (how: string) => new RerollError("RUN_BROKEN", `The thread of the run ${how}.`);
  const module = new URL("control-worker", import.meta.url);
  const thread = startInThread<ControlHost>(module, source, { lost });
  try {
    return await thread.ask.run(listenerOf(tracker));
  } finally {
    signal.removeEventListener("abort", askToStop);
    await thread.end(lost("was ended"));
  }
}

/** Passes on what the thread tells. */
function listenerOf(tracker: RunTracker): ControlListener {
  const endings = new Map<LoopStage, () => void>();
  return {
    note: oneWay((text: string) => tracker.note(text)),
    log: oneWay((...told: Parameters<RunTracker["log"]>) => tracker.log(...told)),
    begin: oneWay((stage: LoopStage) =>
      tracker.span(stage, () => new Promise<void>((end) => void endings.set(stage, end))),
    ),
    end: oneWay((stage: LoopStage) => endings.get(stage)?.()),
    flush: async () => tracker.flush(),
  };
}

/**
 * A control run with its folder: the thread that computes on one side, folder, console and sinks on the other.
 *
 * The event loop of the caller stays free. Whatever happens, `run.json` says finished, failed or interrupted.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { LoopStage, RunRecorder } from "../../run/run-recorder.ts";
import { type OpenRun, type RunTrainingOptions, trackRun } from "../../run/run-training.ts";
import type { TrainResult } from "../../run/train-run.ts";
import { oneWay } from "../../workers/luggage.ts";
import { startInThread } from "../../workers/start-in-thread.ts";
import type { AdaptationConfig } from "../adaptation/adaptation-config.ts";
import { numAdaptationRollouts } from "../adaptation/prepare-adaptation.ts";
import { type ControlConfig, numRollouts } from "./control-config.ts";
import type { ControlHost, ControlListener, ControlSource } from "./control-host.ts";
import { planControl } from "./prepare-control.ts";

/** Runs to the end, or to where the signal stops it. `sets` are the `--set` words, which the thread reads again. */
export function runControl(
  config: ControlConfig | AdaptationConfig,
  sets: readonly string[],
  options: RunTrainingOptions,
): Promise<TrainResult> {
  const run = {
    config,
    numSteps: config.kind === "adaptation" ? numAdaptationRollouts(config) : numRollouts(config),
    recipe: config.algorithm.type,
    model: config.env.type,
    isExportable: false,
    lines: planControl(config),
    recorded: config,
    folder: { trajectoryInterval: 0 },
  };
  return trackRun(run, options, (open) => runThread(open, sets, options));
}

async function runThread(
  { folder, recorder, isResumed }: OpenRun,
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
  const thread = startInThread<ControlHost>(module, source, { lost, needsTypeScript: true });
  try {
    return await thread.ask.run(listenerOf(recorder));
  } finally {
    signal.removeEventListener("abort", askToStop);
    await thread.end(lost("was ended"));
  }
}

/** Passes on what the thread tells. */
function listenerOf(recorder: RunRecorder): ControlListener {
  const endings = new Map<LoopStage, () => void>();
  return {
    say: oneWay((text: string) => recorder.say(text)),
    log: oneWay((...told: Parameters<RunRecorder["log"]>) => recorder.log(...told)),
    begin: oneWay((stage: LoopStage) =>
      recorder.span(stage, () => new Promise<void>((end) => void endings.set(stage, end))),
    ),
    end: oneWay((stage: LoopStage) => endings.get(stage)?.()),
    flush: async () => recorder.flush?.(),
  };
}

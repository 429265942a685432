/** The thread of a control run: everything that computes. */
import type { TrainResult } from "../../run/train-run.ts";
import { runClock } from "../../tracking/run-clock.ts";
import { type RunTracker, silentTracker } from "../../tracking/run-tracker.ts";
import { hostInThread } from "../../workers/host-in-thread.ts";
import type { ControlHost, ControlListener, ControlSource } from "./control-host.ts";
import { readControlFile } from "./prepare-control.ts";
import { trainControl } from "./train-control.ts";

async function run(source: ControlSource, listener: ControlListener): Promise<TrainResult> {
  const { runFile, sets, environment, folder, isResumed, stop } = source;
  const { config } = await readControlFile(runFile, sets, environment);
  const isAsked = new Int32Array(stop);
  const stopping = new AbortController();
  const tracker: RunTracker = {
    ...silentTracker,
    note: listener.note,
    log: (step, of, metrics) => {
      listener.log(step, of, metrics);
      if (Atomics.load(isAsked, 0) === 1) stopping.abort();
    },
    span: async (stage, work) => {
      listener.begin(stage);
      try {
        return await work();
      } finally {
        listener.end(stage);
      }
    },
    flush: listener.flush,
  };
  return trainControl(config, { folder, tracker, signal: stopping.signal, isResumed }, runClock);
}

await hostInThread((source: ControlSource): ControlHost => ({ run: (listener) => run(source, listener) }));

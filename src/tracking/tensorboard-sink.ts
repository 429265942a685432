/** Metrics as TensorBoard event files in the run's folder: `tensorboard --logdir runs` shows them. */
import { appendFile, mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { scalarEvent, startEvent, versionEvent } from "./event-message.ts";
import type { OpenSink } from "./metric-sink.ts";
import { runFiles } from "./run-record.ts";
import { frameRecord } from "./tfrecord.ts";

/** Between two writes. */
const FLUSH_MS = 2000;

/** A sink that writes one event file per process. */
export function tensorboardSink(): OpenSink {
  return ({ folder, startStep, warn }) => {
    const seconds = Date.now() / 1000;
    const directory = join(folder, runFiles.tensorboard);
    // Files are read in the order of their names, so the time comes first.
    const path = join(directory, `events.out.tfevents.${Math.floor(seconds)}.${hostname()}.${process.pid}.reroll`);
    let waiting = [frameRecord(versionEvent(seconds)), frameRecord(startEvent(seconds, startStep + 1))];
    let writing: Promise<unknown> = mkdir(directory, { recursive: true });
    let isOver = false;

    const flush = () => {
      const bytes = Buffer.concat(waiting);
      waiting = [];
      if (bytes.length === 0 || isOver) return writing;
      writing = writing
        .then(() => appendFile(path, bytes))
        .catch((cause: Error) => {
          if (!isOver) warn(`The TensorBoard file cannot be written, and gets no more metrics: ${cause.message}`);
          isOver = true;
        });
      return writing;
    };
    const timer = setInterval(() => void flush(), FLUSH_MS);
    timer.unref();

    return {
      log({ step, timeMs, metrics }) {
        if (!isOver) waiting.push(frameRecord(scalarEvent(timeMs / 1000, step, metrics)));
      },
      async close() {
        clearInterval(timer);
        await flush();
      },
    };
  };
}

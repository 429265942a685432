/**
 * Follows one run, and reports what is new as it comes.
 *
 * In: a run and the byte of its metrics up to which a page knows it. Out: an event whenever a file has grown, as in
 * `LiveEvents`. It looks twice a second. Waits for: nothing; ends with the stream, with the signal, or when the run is
 * gone.
 */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { RerollError } from "../errors/reroll-error.ts";
import { runFiles } from "../tracking/run-record.ts";
import type { LiveEvents } from "./answers.ts";
import type { EventStream } from "./event-stream.ts";
import { readPlainWarnings } from "./read-plain-warnings.ts";
import type { RunStore } from "./run-store.ts";

const POLL_MS = 500;
/** Number of polls between two signs of life. */
const PING_INTERVAL = 30;

/** Resolves when there is nothing more to report; the caller ends the stream. */
export async function followRun(
  store: RunStore,
  key: string,
  stream: EventStream,
  { fromByte, signal }: { readonly fromByte: number | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const send = <Name extends keyof LiveEvents>(name: Name, data: LiveEvents[Name], id?: number) =>
    stream.send(name, data, id);
  const told = new Map<keyof LiveEvents, unknown>();
  const isNews = (name: keyof LiveEvents, value: unknown) => {
    const isNew = told.has(name) && told.get(name) !== value;
    told.set(name, value);
    return isNew;
  };
  if (fromByte !== undefined) told.set("metrics", fromByte);
  let numRecords = 0;
  let warningByte = 0;
  for (let poll = 1; stream.isOpen && !signal.aborted; poll++) {
    try {
      const { info, folder, metrics } = await store.open(key);
      await metrics.file.update();
      if (isNews("info", JSON.stringify(info)) || poll === 1) send("info", info);
      if (isNews("metrics", metrics.file.nextByte)) {
        const numNew = Math.max(0, metrics.numRecords - numRecords);
        send("metrics", { step: metrics.lastStep, timeMs: metrics.lastMs, numNew }, metrics.file.nextByte);
      }
      numRecords = metrics.numRecords;
      const warnings = await readPlainWarnings(folder, warningByte);
      warningByte = warnings.nextByte;
      if (warnings.values.length > 0) send("warnings", warnings.values);
      const numSteps = (await readdir(join(folder, runFiles.trajectories)).catch(() => [])).length;
      if (isNews("trajectories", numSteps)) send("trajectories", { numSteps });
      const numBytes = (await stat(join(folder, runFiles.spans)).catch(() => undefined))?.size ?? 0;
      if (isNews("spans", numBytes)) send("spans", { numBytes });
    } catch (error) {
      if (!(error instanceof RerollError)) throw error;
      send("gone", { message: error.message });
      break;
    }
    if (poll % PING_INTERVAL === 0) stream.ping();
    await setTimeout(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

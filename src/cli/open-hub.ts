/** The Hub as commands use it: with the variables of the environment, and a line that shows how far a download is. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { HubProgress } from "../hub/hub.ts";
import { snapshotsNamedIn } from "../hub/hub-cache.ts";
import { HubPaths } from "../run/hub-paths.ts";

/** Names become paths, and downloads are shown. */
export function openHub(): HubPaths {
  return new HubPaths(process.env, { onProgress: hubProgress() });
}

/** The commits that a run was started with, by repository: a resumed run takes the same ones, whatever has been pushed since. */
export function pinsOfRun(folder: string): Map<string, string> {
  const file = join(folder, "config.json");
  return existsSync(file) ? snapshotsNamedIn(readFileSync(file, "utf8")) : new Map();
}

const TERMINAL_INTERVAL_MS = 200;
const LOG_INTERVAL_MS = 30_000;

/** Writes to standard error: one line that changes in a terminal, a line every half minute elsewhere. */
export function hubProgress(): (progress: HubProgress) => void {
  const isTerminal = process.stderr.isTTY === true;
  const interval = isTerminal ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS;
  let start: { readonly name: string; readonly time: number; readonly bytes: number } | null = null;
  let shown = 0;
  return ({ name, doneBytes, totalBytes }) => {
    const now = Date.now();
    if (start?.name !== name) start = { name, time: now, bytes: doneBytes };
    const isDone = doneBytes >= totalBytes;
    if (!isDone && now - shown < interval) return;
    shown = now;
    const speed = (doneBytes - start.bytes) / Math.max(1, now - start.time) / 1000;
    const share = totalBytes === 0 ? 100 : Math.floor((100 * doneBytes) / totalBytes);
    const line = `Fetching ${name}: ${megabytes(doneBytes)} of ${megabytes(totalBytes)} MB (${share} %), ${speed.toFixed(1)} MB/s`;
    process.stderr.write(isTerminal ? `\r\u001b[K${line}${isDone ? "\n" : ""}` : `${line}\n`);
    if (isDone) start = null;
  };
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

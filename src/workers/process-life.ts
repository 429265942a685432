/**
 * Signs of life of a child process. They come from a thread of its own, through a pipe of their own: a process that computes for minutes
 * gives them too, and one that is stopped, or starves, does not.
 */
import type { ChildProcess } from "node:child_process";
import { Worker } from "node:worker_threads";
import type { Heartbeat } from "./frames.ts";

/** The pipe's number in the child, after the three streams and Node's channel. */
const PIPE = 4;

/** How the child's end of the channel and of the pipe are asked for. */
export const LIFE_STDIO = ["inherit", "inherit", "inherit", "ipc", "pipe"] as const;

const EVERY_MS = 1000;

/** Minutes are far longer than a busy machine leaves a thread without a turn, and far shorter than a collective waits. */
const HEARTBEAT: Heartbeat = { everyMs: 10_000, maxSilentBeats: 12 };

/** The child's side: gives signs of life for as long as the process is there. */
export function giveSignsOfLife(): void {
  const code = `
    const { writeSync } = require("node:fs");
    setInterval(() => {
      try { writeSync(${PIPE}, "."); } catch { process.exit(); }
    }, ${EVERY_MS});`;
  new Worker(code, { eval: true, execArgv: [] }).unref();
}

/** The owner's side: ends a child that has not given any for too long, and calls with how. Beats are counted and not timed, as in frames.ts. */
export function watchLife(
  child: ChildProcess,
  onSilence: (how: string) => void,
  { everyMs, maxSilentBeats }: Heartbeat = HEARTBEAT,
): void {
  const pipe = child.stdio[PIPE];
  let numSilentBeats = 0;
  pipe?.on("error", () => {});
  pipe?.on("data", () => {
    numSilentBeats = 0;
  });
  const beat = setInterval(() => {
    if (++numSilentBeats <= maxSilentBeats) return;
    clearInterval(beat);
    onSilence(`gave no sign of life for ${(everyMs * maxSilentBeats) / 1000} seconds and was ended`);
    child.kill("SIGKILL");
  }, everyMs).unref();
  child.once("exit", () => clearInterval(beat));
}

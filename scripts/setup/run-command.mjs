/**
 * Runs one program to its end with its output in a log file.
 *
 * In: a program, its arguments and a log file. Out: nothing; a failure is a SetupError that shows the end (or start) of the log.
 * The event loop stays free while the program runs, so the setup lock keeps its heartbeat.
 */
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { SetupError } from "./setup-error.mjs";

const LINES_SHOWN = 40;
const PROGRESS_MS = 500;

/**
 * `append` keeps what the log already holds; `env` is added to the environment of this process; `show` is the part of
 * the log in which this program says what went wrong; `onProgress` is told the last step that the log shows, as "7/18" or "38%".
 */
export async function runCommand(command, args, { log, cwd, env = {}, append = false, show = "end", onProgress }) {
  mkdirSync(dirname(log), { recursive: true });
  const output = openSync(log, append ? "a" : "w");
  const watch = onProgress && setInterval(() => onProgress(lastStep(log)), PROGRESS_MS).unref();
  try {
    const failure = await finish(
      // In a group of its own, so that the compilers it starts can be ended with it.
      spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", output, output], detached: true }),
    );
    if (failure !== null) {
      throw new SetupError(`${[command, ...args].join(" ")} failed: ${failure}.\n${readLog(log, show)}`);
    }
  } finally {
    clearInterval(watch);
    closeSync(output);
  }
}

/** Waits for the end; the result is null for success and else says what happened. */
function finish(child) {
  const stopChild = () => endGroup(child.pid);
  process.once("exit", stopChild);
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => {
      if (code === 0) resolve(null);
      else resolve(signal === null ? `exit status ${code}` : `ended by ${signal}`);
    });
  }).finally(() => process.off("exit", stopChild));
}

function endGroup(pid) {
  try {
    if (pid !== undefined) process.kill(-pid);
  } catch {
    // It ended by itself a moment ago.
  }
}

/** Ninja counts steps, make percents; null before the first. */
function lastStep(log) {
  return [...readFileSync(log, "utf8").matchAll(/^\[ *(\d+\/\d+|\d+%)\]/gm)].at(-1)?.[1] ?? null;
}

function readLog(log, show) {
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  if (lines.length === 1 && lines[0] === "") return `It printed nothing (${log}).`;
  const shown = show === "start" ? lines.slice(0, LINES_SHOWN) : lines.slice(-LINES_SHOWN);
  const part = show === "start" ? "first" : "last";
  const heading = lines.length > LINES_SHOWN ? `The ${part} ${LINES_SHOWN} lines of ${log}:` : `${log}:`;
  return [heading, ...shown.map((line) => `  ${line}`)].join("\n");
}

/**
 * The thread that watches the main one.
 *
 * In: beats of the main thread and signals to the process. Out: words about what blocks it, on standard error and in `log.txt`. Where
 * a signal came and the main thread stays blocked, or where it is blocked for too long, `run.json` is closed and the process ends.
 * It counts its own ticks and not the time: a process that was halted as a whole has missed nothing.
 */
import { appendFileSync, readFileSync, writeSync } from "node:fs";
import { Session } from "node:inspector";
import { constants } from "node:os";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { replaceFileSync } from "../files/replace-file.ts";
import { type RunInfo, type RunStatus, runFiles } from "../tracking/run-record.ts";
import { loadSignals } from "../workers/signals.ts";
import { type WatchdogSource, WHERE } from "./watchdog.ts";

const TICK_MS = 250;
/** A main thread that is silent for so long is told of. */
const TELL_TICKS = 20;
/** After a signal, a main thread that is blocked gets this long to come back. A second signal waits for nothing. */
const STOP_TICKS = 12;
/** A main thread that runs no JavaScript cannot be asked; one on a machine that is too busy takes its time to answer. */
const ASK_MS = 6000;

const { beats, folder, limitMs } = workerData as WatchdogSource;
const signals = loadSignals();
let lastBeat = 0;
let silentTicks = 0;
let signalTicks = 0;
let where: string | null = null;

setInterval(() => void tick(), TICK_MS);

async function tick(): Promise<void> {
  const beat = Atomics.load(beats, 0);
  if (beat !== lastBeat) return comeBack(beat);
  silentTicks++;
  signalTicks = signals.numSeen() > 0 ? signalTicks + 1 : 0;
  if (silentTicks === TELL_TICKS) await tell();
  if (signalTicks > STOP_TICKS || (signalTicks > 0 && signals.numSeen() > 1)) return stop();
  if (limitMs !== null && silentTicks >= TELL_TICKS && silentMs() > limitMs)
    await end("failed", 1, `because ${limitMs / 1000} s were over`);
}

function silentMs(): number {
  return silentTicks * TICK_MS;
}

function seconds(): number {
  return Math.floor(silentMs() / 1000);
}

function comeBack(beat: number): void {
  if (silentTicks >= TELL_TICKS) {
    parentPort?.postMessage(
      `${where ?? "Something"} blocked the process for ${seconds()} s: nothing else could go on. Let it wait with await, or run it in a thread.`,
    );
  }
  [lastBeat, silentTicks, signalTicks, where] = [beat, 0, 0, null];
}

async function tell(): Promise<void> {
  where = await askWhere();
  say(`${where} has blocked the process for ${seconds()} s: nothing else can go on. Ctrl-C stops the run.`);
}

function stop(): Promise<void> {
  const number = signals.last();
  const name = Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`;
  return end("interrupted", 128 + number, `by ${name}`);
}

let isEnding = false;

async function end(status: RunStatus, code: number, how: string): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  where ??= await askWhere();
  const text = `${where} blocked the process. The run was ended ${how}.`;
  try {
    say(text);
    if (folder !== null) closeInfo(join(folder, runFiles.info), status, text);
  } finally {
    signals.exit(code);
  }
}

/** The main thread writes this file too, but not while it is blocked. */
function closeInfo(path: string, status: RunStatus, error: string): void {
  const info = JSON.parse(readFileSync(path, "utf8")) as RunInfo;
  const closed: RunInfo = { ...info, status, error, endedAt: new Date().toISOString() };
  replaceFileSync(path, (append) => append(Buffer.from(`${JSON.stringify(closed, null, 2)}\n`)));
}

/** Not through `process.stderr`, which belongs to the main thread. */
function say(text: string): void {
  writeSync(2, `${text}\n`);
  if (folder !== null) appendFileSync(join(folder, runFiles.log), `${new Date().toISOString()} ${text}\n`);
}

/** Halts the main thread for a moment, as a debugger does, and asks it where it is. */
function askWhere(): Promise<string> {
  return new Promise((resolve) => {
    const session = new Session();
    const answer = (text: string) => {
      clearTimeout(timer);
      session.post("Debugger.resume");
      session.disconnect();
      resolve(text);
    };
    const timer = setTimeout(
      () => answer("Something that does not say what it is, such as code outside of JavaScript,"),
      ASK_MS,
    );
    session.connectToMainThread();
    session.on("Debugger.paused", ({ params }) => {
      const callFrameId = params.callFrames[0]?.callFrameId ?? "";
      const expression = `globalThis[Symbol.for(${JSON.stringify(WHERE)})]()`;
      session.post("Debugger.evaluateOnCallFrame", { callFrameId, expression, returnByValue: true }, (_, found) =>
        answer(typeof found?.result.value === "string" ? found.result.value : "A call"),
      );
    });
    session.post("Debugger.enable");
    session.post("Debugger.pause");
  });
}

/**
 * A small parent that starts a command again when it dies: `--restarts`.
 *
 * The command runs in a process of its own, with this terminal. When that fails or is killed, it is started again, in the
 * folder of its run, from the latest checkpoint or from the beginning where there is none. When it ends well, is refused, or is stopped by a
 * signal, so does this one, with the same exit code. A process that gives no sign of life for ten minutes is killed. It gives up when so many
 * restarts in a row have brought the run no further. Where a launcher would leave it behind, it ends with that, and its child at once: what the
 * launcher starts next must not meet it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { CommanderError } from "commander";
import { RerollError } from "../errors/reroll-error.ts";
import { isLeftBehind } from "../machines/launch.ts";
import { latestStep } from "../run/resumable.ts";
import { ownProgram } from "./own-program.ts";
import { ALIVE_MS, type StopWord, type Word } from "./supervised.ts";

/** Waits before the first, second, ... restart in a row without progress, in seconds; the last of them from then on. */
const DELAYS_S = [0, 1, 2, 4, 8, 16, 32, 60];

/** How long a server must have been up to have come further: one that dies at its first request has not. */
const LONG_UP_MS = 60_000;

/** Ten minutes: a process runs code of users, which may block it for a while. */
const MAX_SILENT_BEATS = 60;

/**
 * Runs the command that this process was started with. Resolves when it has ended well; rejects with the exit code of a command that was stopped
 * or refused, or when it gives up.
 *
 * @param maxRestarts restarts in a row without progress, after which it gives up
 */
export async function superviseThis(maxRestarts: number): Promise<void> {
  const words = process.argv.slice(2);
  const stop = new StopRequest();
  let folder: string | null = null;
  let furthest = -1;
  let numInVain = 0;
  try {
    for (;;) {
      const life = await live(wordsOf(words, folder), stop);
      if (life.code === 0) return;
      folder = life.folder ?? folder;
      const reached = folder === null ? -1 : latestStep(folder);
      numInVain = life.hasServed || reached > furthest ? 1 : numInVain + 1;
      furthest = Math.max(furthest, reached);
      stop.throwIfStopped();
      if (life.code === REFUSED) throw new CommanderError(REFUSED, "reroll.refused", "");
      if (numInVain > maxRestarts || life.isFinal) throw givenUp(life, numInVain - 1);
      const delayS = DELAYS_S[Math.min(numInVain, DELAYS_S.length) - 1]!;
      console.error(`${life.how}. Starting it again${delayS === 0 ? "" : ` in ${delayS} seconds`}.`);
      await stop.sleep(1000 * delayS);
      stop.throwIfStopped();
    }
  } finally {
    stop.release();
  }
}

/** Wrong input would be refused again. */
const REFUSED = 2;

/** What came of one process. */
interface Life {
  readonly code: number | null;
  /** A sentence without its end: "The process was ended by SIGKILL". */
  readonly how: string;
  /** The folder of its run; null for a worker or a server, and where it did not come that far. */
  readonly folder: string | null;
  /**
   * Whether it is a worker that had joined, or a server that had listened for a while. A worker leaves it to the parent of its controller to give up:
   * without a controller it ends when it has waited for one, and the run must not wait for a worker that waits longer and longer.
   */
  readonly hasServed: boolean;
  /** Whether there is no use in another one: a worker that has waited for its controller for as long as it was told. */
  readonly isFinal: boolean;
}

/** Runs the command once. Never rejects where it could be started. */
async function live(words: readonly string[], stop: StopRequest): Promise<Life> {
  const [program, ...first] = ownProgram();
  const child = spawn(program!, [...first, ...words], { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  let folder: string | null = null;
  let [isWorker, wasUp, isHung] = [false, false, false];
  let numSilentBeats = 0;
  let upSinceMs = Number.POSITIVE_INFINITY;
  child.on("message", (word: Word) => {
    numSilentBeats = 0;
    if (word.kind === "run") folder = word.folder;
    if (word.kind === "joining") isWorker = true;
    if (word.kind === "joined" || word.kind === "listening") {
      wasUp = true;
      upSinceMs = Math.min(upSinceMs, performance.now());
    }
  });
  const beat = setInterval(() => {
    isHung = ++numSilentBeats > MAX_SILENT_BEATS;
    if (isHung) child.kill("SIGKILL");
  }, ALIVE_MS);
  stop.passTo(child);
  const { code, signal } = await new Promise<{ code: number | null; signal: NodeJS.Signals | null }>(
    (resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => resolve({ code, signal }));
    },
  ).finally(() => clearInterval(beat));
  stop.passTo(null);
  const silence = `The process gave no sign of life for ${(MAX_SILENT_BEATS * ALIVE_MS) / 1000} seconds and was ended`;
  const ending = signal === null ? `The process ended with code ${code}` : `The process was ended by ${signal}`;
  const isFinal = code === 1 && isWorker && !wasUp;
  return {
    code,
    how: isHung ? silence : ending,
    folder,
    hasServed: isWorker ? wasUp : performance.now() - upSinceMs > LONG_UP_MS,
    isFinal,
  };
}

/** The words of the next process: those that were given, but in the folder of the run where that is known. */
function wordsOf(given: readonly string[], folder: string | null): readonly string[] {
  const left = folder === null ? ["--restarts"] : ["--restarts", "--resume", "--resume-from"];
  const kept = given.filter((word, i) => {
    const isValue = left.includes(given[i - 1] ?? "");
    return !isValue && !left.some((flag) => word === flag || word.startsWith(`${flag}=`));
  });
  return [...kept, "--supervised", ...(folder === null ? [] : ["--again", folder])];
}

function givenUp({ how }: Life, numInVain: number): RerollError {
  return new RerollError(
    "RESTARTS_SPENT",
    `${how}${numInVain === 0 ? "" : ` after ${numInVain} restarts in a row that brought it no further`}. What it printed says why.`,
  );
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** A look at the parent of this process, which is another one as soon as the first is gone. */
const LOOK_MS = 1000;

/** Signals to this process, passed on to its child: the first asks it to stop, the second ends it, and so does the end of a launcher. */
class StopRequest {
  readonly #watch: NodeJS.Timeout | undefined;
  #child: ChildProcess | null = null;
  #wake = () => {};
  /** The first signal that came; null before. */
  #signal: NodeJS.Signals | null = null;
  /** Whether the launcher that started this process is gone. */
  #isLeft = false;

  constructor() {
    for (const name of SIGNALS) process.on(name, this.#receive);
    if (!isLeftBehind(process.env)) return;
    const parent = process.ppid;
    this.#watch = setInterval(() => {
      if (process.ppid !== parent) this.#leave();
    }, LOOK_MS).unref();
  }

  /** Throws with the exit code of whoever was asked to stop. */
  throwIfStopped(): void {
    if (this.#isLeft) throw new RerollError("PARENT_LOST", "What started this process is gone, and so it ends too.");
    if (this.#signal !== null) throw new CommanderError(exitCodeOf(this.#signal), "reroll.stopped", "");
  }

  passTo(child: ChildProcess | null): void {
    this.#child = child;
  }

  async sleep(delayMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delayMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  release(): void {
    clearInterval(this.#watch);
    for (const name of SIGNALS) process.off(name, this.#receive);
  }

  #leave(): void {
    this.#isLeft = true;
    this.#child?.kill("SIGKILL");
    this.#wake();
  }

  readonly #receive = (name: NodeJS.Signals): void => {
    if (this.#signal !== null) this.#child?.kill("SIGKILL");
    else if (this.#child?.connected) this.#child.send({ kind: "stop", signal: name } satisfies StopWord);
    this.#signal = name;
    this.#wake();
  };
}

/** As shells count. */
function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

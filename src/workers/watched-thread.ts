/**
 * One thread of code that may crash or hang, seen by its owner. Its module calls `guardThread`.
 *
 * A thread that crashes, or that does not even answer a ping for `timeoutMs` while something is asked of it, is ended, and everything asked
 * of it rejects with the number of the call that it was lost in. There is no way back; its owner starts another one.
 */
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { GuardedSource } from "./guard-thread.ts";
import { oneWay } from "./luggage.ts";
import type { Asked, Remote } from "./remote.ts";
import { startInThread } from "./start-in-thread.ts";

/** Silence is counted in this many ticks, so that a timer that is late because its own thread was busy proves nothing. */
const SILENT_TICKS = 4;

/** Loading code and data may take this long, whatever the limit of a call is. */
const START_MS = 60_000;

/** What a watched thread hosts. */
interface WatchedHost {
  /** Answers at once, unless the thread hangs. */
  ping(): Promise<void>;
  /** Tells of what foreign code does outside of calls, in words that follow its name, until the thread ends. */
  listen(report: (message: string) => void): Promise<never>;
}

interface WatchedCall {
  timeOut: () => void;
  /** Ticks in which the thread had time for others, and still did not answer this. */
  numPatientTicks: number;
}

interface WatchedThreadOptions {
  /** How errors begin: `Env "sokoban"`. */
  readonly name: string;
  /** The worker's module without its ending. */
  readonly module: URL;
  readonly source: object;
  readonly needsTypeScript: boolean;
  /** How long the thread may be silent while something is asked of it. */
  readonly timeoutMs: number;
  /** Whether a call that takes `timeoutMs` has failed too. Time in which the thread was busy with other calls does not count. */
  readonly limitsCalls?: boolean;
  /** Told, with the name, of what foreign code does outside of calls. Default: standard error. */
  readonly report?: ((text: string) => void) | undefined;
  /** The code of calls to a thread that is gone, and of errors that the hosted code throws without one. */
  readonly codes: { readonly lost: ErrorCode; readonly failed: ErrorCode };
}

/** The owner's side of a thread. Starts at once. */
export class WatchedThread<Host extends WatchedHost> {
  readonly #options: WatchedThreadOptions;
  readonly #remote: Remote<Host>;
  readonly #timeoutMs: number;
  readonly #ready: Promise<void>;
  readonly #running = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting = new Set<WatchedCall>();
  #isReady = false;
  #watch: NodeJS.Timeout | undefined;
  #numSilentTicks = 0;
  /** Number of things that live here, as their owner counts them. */
  load = 0;

  constructor(options: WatchedThreadOptions) {
    const { module, source, needsTypeScript, timeoutMs, codes } = options;
    this.#options = options;
    this.#timeoutMs = timeoutMs;
    const lost = (how: string) => this.#gone(`its thread ${how}`);
    const guarded: GuardedSource = { ...source, running: this.#running };
    this.#remote = startInThread(module, guarded, { lost, needsTypeScript });
    this.#ready = this.#watched(this.#remote.ready).then(
      () => {
        this.#isReady = true;
        this.#listen();
      },
      (error: RerollError) => {
        // What the thread says of its own start is about the hosted code; how the thread ended has its words already.
        throw error.code === codes.lost ? error : this.#gone(`it could not be built: ${error.message}`);
      },
    );
    // Whoever asks for something is told; nobody may be asking yet.
    this.#ready.catch(() => {});
  }

  /** Whether it can still be asked for anything. */
  get isRunning(): boolean {
    return this.#remote.ended === null;
  }

  /** Asks the thread. Rejects at once when the signal aborts; the hosted code gets that signal and may still be busy. */
  async ask<Answer>(call: (host: Asked<Host>) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    await this.#ready;
    signal?.throwIfAborted();
    try {
      return await this.#watched(untilAborted(call(this.#remote.ask), signal));
    } catch (error) {
      throw this.#named(error);
    }
  }

  /** Lets the hosted code free what it holds, then ends the thread. What is still asked of it rejects. */
  async close(): Promise<void> {
    const closed = this.#gone("it was closed");
    try {
      if (this.isRunning) await this.#ready.then(() => this.#watched(this.#remote.close(closed)));
    } catch (error) {
      // A thread that was lost in the meantime has nothing left to free.
      if (this.isRunning) throw error;
    } finally {
      await this.#remote.end(closed);
    }
  }

  /** Watches the thread for as long as somebody waits for it. */
  async #watched<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const call: WatchedCall = { numPatientTicks: 0, timeOut: () => {} };
    const late = new Promise<never>((_, reject) => {
      call.timeOut = () => reject(this.#tooLate());
    });
    this.#waiting.add(call);
    this.#watch ??= setInterval(() => this.#tick(), this.#timeoutMs / SILENT_TICKS);
    try {
      return await Promise.race([answer, late]);
    } finally {
      this.#numSilentTicks = 0;
      this.#waiting.delete(call);
      if (this.#waiting.size === 0) {
        clearInterval(this.#watch);
        this.#watch = undefined;
      }
    }
  }

  #tick(): void {
    this.#numSilentTicks++;
    if (this.#isReady) void this.#ping();
    const limitMs = this.#isReady ? this.#timeoutMs : Math.max(START_MS, this.#timeoutMs);
    if ((this.#numSilentTicks * this.#timeoutMs) / SILENT_TICKS < limitMs) return;
    void this.#remote.end(this.#gone(`its thread said nothing for ${limitMs} ms and was ended`));
  }

  /** A call may take as long as it likes, as long as its thread has time for others. */
  async #ping(): Promise<void> {
    const answered = await Promise.allSettled([(this.#remote.ask as unknown as WatchedHost).ping()]);
    if (answered[0].status !== "fulfilled") return;
    this.#numSilentTicks = 0;
    if (this.#options.limitsCalls !== true) return;
    for (const call of this.#waiting) if (++call.numPatientTicks > SILENT_TICKS) call.timeOut();
  }

  #listen(): void {
    const { name, report = (text) => void process.stderr.write(`${text}\n`) } = this.#options;
    const tell = oneWay((message: string) => report(`${name} ${message}`));
    // It ends with the thread, of which everybody else learns by other ways.
    (this.#remote.ask as unknown as WatchedHost).listen(tell).catch(() => {});
  }

  #tooLate(): RerollError {
    const { name, timeoutMs } = this.#options;
    return new RerollError("TIMEOUT", `${name} did not answer within ${timeoutMs} ms.`, { name, timeoutMs });
  }

  /** An error of the hosted code, with its name; errors that are not reroll's own are told as its failure. */
  #named(error: unknown): unknown {
    const { name, codes } = this.#options;
    if (!(error instanceof RerollError) || error.code === codes.lost) return error;
    const details = { ...error.details, name };
    return error.code === "INTERNAL"
      ? new RerollError(codes.failed, `${name} failed: ${error.message}`, details, { cause: error })
      : new RerollError(error.code, error.message, details, { cause: error });
  }

  #gone(reason: string): RerollError {
    const { name, codes } = this.#options;
    return new RerollError(codes.lost, `${name} is gone: ${reason}.`, { name, running: this.#running[0] });
  }
}

/** Whether a thread was lost in another call than the one with this number, which can be asked again of the next thread. */
export function wasLostElsewhere(error: unknown, lost: ErrorCode, number: number): boolean {
  if (!(error instanceof RerollError) || error.code !== lost) return false;
  return error.details.running !== 0 && error.details.running !== number;
}

function untilAborted<Answer>(answer: Promise<Answer>, signal: AbortSignal | undefined): Promise<Answer> {
  if (signal === undefined) return answer;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    const settle =
      <Value>(how: (value: Value) => void) =>
      (value: Value) => {
        signal.removeEventListener("abort", abort);
        how(value);
      };
    signal.addEventListener("abort", abort, { once: true });
    answer.then(settle(resolve), settle(reject));
  });
}

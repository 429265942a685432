/**
 * One thread of environments, seen by its owner.
 *
 * A thread that crashes, or that says nothing for `timeoutMs` while something is asked of it, is ended, and everything asked of it
 * rejects. There is no way back; its owner starts another one.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Asked, Remote } from "../workers/remote.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import type { EnvHost, EnvSource } from "./env-host.ts";

/** Silence is counted in this many ticks, so that a timer that is late because its own thread was busy proves nothing. */
const SILENT_TICKS = 4;

/** Loading code and data may take this long, whatever the limit of a step is. */
const START_MS = 60_000;

/** The owner's side of a thread. Starts at once. */
export class EnvThread {
  readonly #name: string;
  readonly #remote: Remote<EnvHost>;
  readonly #timeoutMs: number;
  readonly #ready: Promise<void>;
  #isReady = false;
  #numWaiting = 0;
  #watch: NodeJS.Timeout | undefined;
  #numSilentTicks = 0;
  /** Number of episodes that live here, as their owner counts them. */
  numEpisodes = 0;

  constructor(name: string, source: EnvSource, timeoutMs: number) {
    this.#name = name;
    this.#timeoutMs = timeoutMs;
    const needsTypeScript = source.module.endsWith(".ts");
    const lost = (how: string) => this.#gone(`its thread ${how}`);
    this.#remote = startInThread(new URL("env-worker", import.meta.url), source, { lost, needsTypeScript });
    this.#ready = this.#watched(this.#remote.ready).then(
      () => {
        this.#isReady = true;
      },
      (error: RerollError) => {
        // What the thread says of its own start is about the environment; how the thread ended has its words already.
        throw error.code === "ENV_THREAD_LOST" ? error : this.#gone(`it could not be built: ${error.message}`);
      },
    );
    // Whoever asks for something is told; nobody may be asking yet.
    this.#ready.catch(() => {});
  }

  /** Whether it can still be asked for anything. */
  get isRunning(): boolean {
    return this.#remote.ended === null;
  }

  /** Asks the thread. Rejects at once when the signal aborts; the environment gets that signal and may still be busy. */
  async ask<Answer>(call: (envs: Asked<EnvHost>) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    await this.#ready;
    signal?.throwIfAborted();
    try {
      return await this.#watched(untilAborted(call(this.#remote.ask), signal));
    } catch (error) {
      throw this.#named(error);
    }
  }

  /** Lets the environment free what it holds, then ends the thread. Episodes that still run reject. */
  async close(): Promise<void> {
    const closed = this.#gone("it was closed");
    try {
      if (this.isRunning) await this.#ready.then(() => this.#watched(this.#remote.close(closed)));
    } finally {
      await this.#remote.end(closed);
    }
  }

  /** Watches the thread for as long as somebody waits for it. */
  async #watched<Answer>(answer: Promise<Answer>): Promise<Answer> {
    this.#numWaiting++;
    this.#watch ??= setInterval(() => this.#tick(), this.#timeoutMs / SILENT_TICKS);
    try {
      return await answer;
    } finally {
      this.#numSilentTicks = 0;
      this.#numWaiting--;
      if (this.#numWaiting === 0) {
        clearInterval(this.#watch);
        this.#watch = undefined;
      }
    }
  }

  #tick(): void {
    this.#numSilentTicks++;
    const limitMs = this.#isReady ? this.#timeoutMs : Math.max(START_MS, this.#timeoutMs);
    if ((this.#numSilentTicks * this.#timeoutMs) / SILENT_TICKS < limitMs) return;
    void this.#remote.end(this.#gone(`its thread said nothing for ${limitMs} ms and was ended`));
  }

  /** An error of the environment, with its name; errors that are not reroll's own are told as its failure. */
  #named(error: unknown): unknown {
    if (!(error instanceof RerollError) || error.code === "ENV_THREAD_LOST") return error;
    const details = { ...error.details, env: this.#name };
    return error.code === "INTERNAL"
      ? new RerollError("ENV_FAILED", `Env "${this.#name}" failed: ${error.message}`, details, { cause: error })
      : new RerollError(error.code, error.message, details, { cause: error });
  }

  #gone(reason: string): RerollError {
    return new RerollError("ENV_THREAD_LOST", `Env "${this.#name}" is gone: ${reason}.`, { env: this.#name });
  }
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

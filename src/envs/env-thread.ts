/**
 * One thread of environments, seen by its owner.
 *
 * Requests go over, answers come back. A thread that crashes, or that says nothing for `timeoutMs` while something is asked of
 * it, is ended, and everything asked of it rejects; there is no way back, its owner starts another one.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../errors/reroll-error.ts";
import { startWorker } from "../workers/start-worker.ts";
import type { EnvAnswer, EnvErrorMessage, EnvSource, FromEnvThread, ToEnvThread } from "./env-messages.ts";

/** Silence is counted in this many ticks, so that a timer that is late because its own thread was busy proves nothing. */
const SILENT_TICKS = 4;

/** Loading code and data may take this long, whatever the limit of a step is. */
const START_MS = 60_000;
/** The number under which the start of the thread is awaited. */
const READY = 0;

/** A request without its number. */
type EnvRequest = WithoutId<Exclude<ToEnvThread, { kind: "abort" }>>;
type WithoutId<Message> = Message extends unknown ? Omit<Message, "id"> : never;

interface Pending {
  readonly resolve: (answer: EnvAnswer) => void;
  readonly reject: (reason: unknown) => void;
}

/** The owner's side of a thread. Starts at once. */
export class EnvThread {
  readonly #name: string;
  readonly #worker: Worker;
  readonly #timeoutMs: number;
  readonly #pending = new Map<number, Pending>();
  readonly #ready: Promise<EnvAnswer>;
  #watch: NodeJS.Timeout | undefined;
  #numSilentTicks = 0;
  #nextId = 1;
  #end: RerollError | null = null;
  /** Episodes that live here, as their owner counts them. */
  numEpisodes = 0;

  constructor(name: string, source: EnvSource, timeoutMs: number) {
    this.#name = name;
    this.#timeoutMs = timeoutMs;
    this.#worker = startEnvWorker(source);
    this.#worker.on("message", (message: FromEnvThread) => this.#receive(message));
    this.#worker.on("error", (error) => this.#breakDown(`its thread crashed: ${error.message}`));
    this.#worker.on("exit", (code) => this.#breakDown(`its thread ended with code ${code}`));
    this.#ready = this.#expect(READY);
    // Whoever asks for something is told; nobody may be asking yet.
    this.#ready.catch(() => {});
  }

  /** Whether it can still be asked for anything. */
  get isRunning(): boolean {
    return this.#end === null;
  }

  /** The answer of the thread. Rejects at once when the signal aborts; the thread is told. */
  async ask(request: EnvRequest, signal?: AbortSignal): Promise<EnvAnswer> {
    await this.#ready;
    signal?.throwIfAborted();
    if (this.#end !== null) throw this.#end;
    const id = this.#nextId++;
    const abort = () => {
      this.#post({ kind: "abort", id });
      this.#settle(id)?.reject(signal?.reason);
    };
    this.#post({ ...request, id });
    signal?.addEventListener("abort", abort, { once: true });
    return this.#expect(id).finally(() => signal?.removeEventListener("abort", abort));
  }

  /** Lets the environment free what it holds, then ends the thread. Episodes that still run reject. */
  async close(): Promise<void> {
    try {
      if (this.isRunning) await this.ask({ kind: "close" });
    } finally {
      this.#breakDown("it was closed");
      await this.#worker.terminate();
    }
  }

  #expect(id: number): Promise<EnvAnswer> {
    this.#watch ??= setInterval(() => this.#tick(), this.#timeoutMs / SILENT_TICKS);
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#stopWatch();
    return pending;
  }

  #receive(message: FromEnvThread): void {
    this.#numSilentTicks = 0;
    switch (message.kind) {
      case "ready":
        this.#settle(READY)?.resolve({});
        break;
      case "broken":
        this.#breakDown(`it could not be built: ${message.error.message}`);
        break;
      case "done":
        this.#settle(message.id)?.resolve(message.answer);
        break;
      case "failed":
        this.#settle(message.id)?.reject(this.#unpack(message.error));
        break;
    }
  }

  #tick(): void {
    this.#numSilentTicks++;
    const limitMs = this.#pending.has(READY) ? Math.max(START_MS, this.#timeoutMs) : this.#timeoutMs;
    if ((this.#numSilentTicks * this.#timeoutMs) / SILENT_TICKS < limitMs) return;
    this.#breakDown(`its thread said nothing for ${limitMs} ms and was ended`);
  }

  #breakDown(reason: string): void {
    if (this.#end !== null) return;
    const error = new RerollError("ENV_THREAD_LOST", `Env "${this.#name}" is gone: ${reason}.`, { env: this.#name });
    this.#end = error;
    for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(error);
    this.#stopWatch();
    void this.#worker.terminate();
  }

  #stopWatch(): void {
    clearInterval(this.#watch);
    this.#watch = undefined;
    this.#numSilentTicks = 0;
  }

  #post(message: ToEnvThread): void {
    this.#worker.postMessage(message);
  }

  #unpack({ code, message }: EnvErrorMessage): RerollError {
    if (code !== null) return new RerollError(code, message, { env: this.#name });
    return new RerollError("ENV_FAILED", `Env "${this.#name}" failed: ${message}`, { env: this.#name });
  }
}

function startEnvWorker(source: EnvSource): Worker {
  const needsTypeScript = source.module.endsWith(".ts");
  return startWorker(new URL("env-worker", import.meta.url), source, { needsTypeScript });
}

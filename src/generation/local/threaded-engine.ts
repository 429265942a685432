/**
 * The engine in a thread of its own, so that the event loop of its owner stays free while tokens are drawn.
 *
 * Requests go over and tokens come back as messages; signals and callbacks stay on this side; weights are handed over
 * without a copy. When the thread fails, every request ends as failed and every call rejects.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../../errors/reroll-error.ts";
import { discardParcel, sendTensor } from "../../torch/parcel.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { startWorker } from "../../workers/start-worker.ts";
import { checkRequest, type RequestLimits } from "../check-request.ts";
import type { Engine, EngineStatus } from "../engine.ts";
import type { Finish, GenerateRequest, Generation, SampledTokens } from "../generate.ts";
import { deliverTokens } from "./deliver-tokens.ts";
import {
  type EngineEvent,
  type EngineSource,
  type FromEngine,
  type NamedParcel,
  type RequestMessage,
  type ToEngine,
  unpackError,
  unpackFinish,
} from "./engine-messages.ts";

/** Loads a model in a new thread and runs an engine on it. Rejects with the reason where that fails. */
export function startThreadedEngine(source: EngineSource): Promise<ThreadedEngine> {
  return connectEngine(startWorker(new URL("engine-worker", import.meta.url), source));
}

/** The engine of a thread that runs engine-worker.ts, or anything that speaks as it does. */
export function connectEngine(worker: Worker): Promise<ThreadedEngine> {
  return new Promise((resolve, reject) => {
    worker.once("error", (error) => reject(broken(error.message)));
    worker.once("exit", (code) => reject(broken(`it ended with code ${code}`)));
    worker.once("message", (message: FromEngine) => {
      if (message.kind === "ready") resolve(new ThreadedEngine(worker, message.status, message.limits));
      else if (message.kind === "broken") reject(unpackError(message.error));
    });
  });
}

interface PendingRequest {
  readonly request: GenerateRequest;
  readonly resolve: (generation: Generation) => void;
  readonly reject: (error: RerollError) => void;
  readonly stopListening: () => void;
  /** Set once its callback has thrown. */
  failure: Finish | null;
}

interface PendingCall {
  readonly resolve: () => void;
  readonly reject: (error: RerollError) => void;
}

export class ThreadedEngine implements Engine {
  readonly #worker: Worker;
  readonly #limits: RequestLimits;
  readonly #requests = new Map<number, PendingRequest>();
  readonly #calls = new Map<number, PendingCall>();
  #outbox: ToEngine[] = [];
  #lastStatus: EngineStatus;
  #nextId = 0;
  /** Why nothing can be asked any more. */
  #end: RerollError | null = null;
  #closing: Promise<void> | null = null;

  constructor(worker: Worker, status: EngineStatus, limits: RequestLimits) {
    this.#worker = worker;
    this.#limits = limits;
    this.#lastStatus = status;
    worker.on("message", (message: FromEngine) => this.#receive(message));
    worker.on("error", (error) => this.#breakDown(broken(error.message)));
    worker.on("exit", (code) => this.#breakDown(broken(`it ended with code ${code}`)));
  }

  readonly generate = (request: GenerateRequest): Promise<Generation> =>
    new Promise((resolve, reject) => {
      // Inside the promise: what is thrown here rejects it.
      this.#expectRunning();
      checkRequest(request, this.#limits);
      const id = this.#nextId++;
      const { signal } = request;
      const abort = () => this.#post({ kind: "abort", id });
      this.#post({ kind: "generate", id, request: packRequest(request) });
      signal?.addEventListener("abort", abort, { once: true });
      const stopListening = () => signal?.removeEventListener("abort", abort);
      this.#requests.set(id, { request, resolve, reject, stopListening, failure: null });
    });

  pause(): Promise<void> {
    return this.#call((id) => ({ kind: "pause", id }));
  }

  resume(): void {
    this.#expectRunning();
    this.#post({ kind: "resume" });
  }

  abortAll(): Promise<void> {
    return this.#call((id) => ({ kind: "abortAll", id }));
  }

  /**
   * New weights by their Hugging Face names, all of them. Resolves when the thread has copied them: until then they must
   * not change. Tokens drawn from then on carry this version.
   */
  async updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void> {
    this.#expectRunning();
    const parcels = [...weights].map(([name, tensor]) => ({ name, parcel: sendTensor(tensor) }));
    await this.#call((id) => ({ kind: "weights", id, version, weights: parcels })).finally(() => {
      if (this.#end !== null) discardAll(parcels);
    });
  }

  /** As of the last message of the thread: at most a step or 100 ms old. */
  status(): EngineStatus {
    return this.#end === null ? this.#lastStatus : { ...this.#lastStatus, brokenBy: this.#end.message };
  }

  /** Aborts what runs, frees the model and ends the thread. */
  close(): Promise<void> {
    this.#closing ??= this.#end === null ? this.#shutDown() : Promise.resolve();
    return this.#closing;
  }

  async #shutDown(): Promise<void> {
    await this.#call((id) => ({ kind: "close", id }));
    this.#breakDown(new RerollError("ENGINE_CLOSED", "This engine is closed."));
    await this.#worker.terminate();
  }

  #call(message: (id: number) => ToEngine): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#expectRunning();
      const id = this.#nextId++;
      this.#calls.set(id, { resolve, reject });
      this.#post(message(id));
    });
  }

  #receive(message: FromEngine): void {
    if (message.kind !== "news") return;
    this.#lastStatus = message.status;
    for (const event of message.events) this.#handle(event);
  }

  #handle(event: EngineEvent): void {
    switch (event.kind) {
      case "tokens":
        this.#deliver(event.id, event.tokens);
        break;
      case "generation": {
        const pending = this.#takeRequest(event.id);
        pending?.resolve({ ...event.generation, finish: pending.failure ?? unpackFinish(event.finish) });
        break;
      }
      case "done":
        this.#takeCall(event.id)?.resolve();
        break;
      case "refused":
        (this.#takeRequest(event.id) ?? this.#takeCall(event.id))?.reject(unpackError(event.error));
        break;
    }
  }

  #deliver(id: number, tokens: SampledTokens): void {
    const pending = this.#requests.get(id);
    if (pending?.request.onTokens === undefined || pending.failure !== null) return;
    pending.failure = deliverTokens(pending.request.onTokens, tokens);
    if (pending.failure !== null) this.#post({ kind: "abort", id });
  }

  #takeRequest(id: number): PendingRequest | undefined {
    const pending = this.#requests.get(id);
    this.#requests.delete(id);
    pending?.stopListening();
    return pending;
  }

  #takeCall(id: number): PendingCall | undefined {
    const pending = this.#calls.get(id);
    this.#calls.delete(id);
    return pending;
  }

  /** Says it with everything else of this turn: the samples of a group reach the thread together and share their prompt. */
  #post(message: ToEngine): void {
    this.#outbox.push(message);
    if (this.#outbox.length > 1) return;
    queueMicrotask(() => {
      const messages = this.#outbox;
      this.#outbox = [];
      const prompts = messages.flatMap((one) => (one.kind === "generate" ? [one.request.promptIds.buffer] : []));
      this.#worker.postMessage(messages, prompts);
    });
  }

  #expectRunning(): void {
    if (this.#end !== null) throw this.#end;
  }

  /** Ends everything that waits for the thread. What it had drawn is lost with it. */
  #breakDown(reason: RerollError): void {
    this.#end ??= reason;
    for (const [id, { request }] of [...this.#requests]) this.#takeRequest(id)?.resolve(failed(request, reason));
    for (const id of [...this.#calls.keys()]) this.#takeCall(id)?.reject(reason);
  }
}

function packRequest(request: GenerateRequest): RequestMessage {
  const { promptIds, sampling, sessionId, numTopLogprobs, onTokens, signal } = request;
  return {
    promptIds: Int32Array.from(promptIds),
    // What cannot be cloned must be refused now, and not when the message is sent.
    sampling: structuredClone(sampling),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(numTopLogprobs === undefined ? {} : { numTopLogprobs }),
    isStreaming: onTokens !== undefined,
    isAborted: signal?.aborted ?? false,
  };
}

function discardAll(parcels: readonly NamedParcel[]): void {
  for (const { parcel } of parcels) {
    try {
      discardParcel(parcel);
    } catch {
      // The thread had received this one before it failed.
    }
  }
}

function broken(reason: string): RerollError {
  return new RerollError("ENGINE_BROKEN", `The engine's thread failed: ${reason}. Start another engine.`);
}

function failed({ promptIds }: GenerateRequest, error: RerollError): Generation {
  return {
    tokenIds: new Int32Array(),
    samplerLogprobs: new Float32Array(),
    modelLogprobs: new Float32Array(),
    versions: new Int32Array(),
    finish: { kind: "failed", error },
    usage: { promptTokens: promptIds.length, cachedTokens: 0, generatedTokens: 0 },
  };
}

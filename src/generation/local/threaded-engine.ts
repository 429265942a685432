/**
 * The engine in a thread of its own, so that the event loop of its owner stays free while tokens are drawn.
 *
 * Weights are handed over without a copy. When the thread fails, every request ends as failed and every call rejects.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { joinTokens } from "../../flow/sampled-tokens.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { moved, oneWay } from "../../workers/luggage.ts";
import type { Remote } from "../../workers/remote.ts";
import { startInThread } from "../../workers/start-in-thread.ts";
import { checkRequest, type RequestLimits } from "../check-request.ts";
import type { Engine, EngineStatus } from "../engine.ts";
import type { Finish, GenerateRequest, Generation, SampledTokens } from "../generate.ts";
import { deliverTokens } from "./deliver-tokens.ts";
import { type EngineDescription, type EngineHost, type EngineSource, engineLine } from "./engine-host.ts";

/** Loads a model in a new thread and runs an engine on it. Rejects with the reason where that fails. */
export function startThreadedEngine(source: EngineSource): Promise<ThreadedEngine> {
  return openThreadedEngine(new URL("engine-worker", import.meta.url), source);
}

/** The engine that a worker's module hosts: engine-worker.ts, or a fake of it. */
export async function openThreadedEngine(module: URL, source: unknown): Promise<ThreadedEngine> {
  // With everything else of the turn: the samples of a group reach the thread together and share their prompt.
  const host = startInThread<EngineHost>(module, source, { ...engineLine(queueMicrotask), lost: broken });
  return new ThreadedEngine(host, await host.ask.describe());
}

export class ThreadedEngine implements Engine {
  readonly #host: Remote<EngineHost>;
  readonly #limits: RequestLimits;
  #lastStatus: EngineStatus;

  constructor(host: Remote<EngineHost>, { limits, status }: EngineDescription) {
    this.#host = host;
    this.#limits = limits;
    this.#lastStatus = status;
    const keep = (status: EngineStatus) => {
      this.#lastStatus = status;
    };
    // Lasts as long as the engine; how that ends is told to whoever asks for something.
    host.ask.watch(oneWay(keep)).catch((cause: unknown) => {
      if (cause instanceof RerollError && cause.code === "ENGINE_BROKEN") void host.end(cause);
    });
  }

  readonly generate = async (request: GenerateRequest): Promise<Generation> => {
    this.#expectRunning();
    checkRequest(request, this.#limits);
    const { promptIds, onTokens, signal, ...rest } = request;
    const stream = onTokens === undefined ? null : openStream(onTokens, signal);
    try {
      const generation = await this.#host.ask.generate({
        promptIds: moved(Int32Array.from(promptIds)),
        ...clonable(rest),
        ...(stream?.part ?? (signal !== undefined && { signal })),
      });
      return { ...generation, finish: stream?.failure() ?? generation.finish };
    } catch (error) {
      // What the thread had drawn is lost with it.
      const { ended } = this.#host;
      if (ended !== null && error === ended) return failed(request, ended);
      throw error;
    } finally {
      stream?.close();
    }
  };

  readonly scorePrompt = (promptIds: Int32Array): Promise<Float32Array> => this.#host.ask.scorePrompt(promptIds);

  pause(): Promise<void> {
    return this.#host.ask.pause();
  }

  resume(): void {
    this.#expectRunning();
    this.#host.tell.resume();
  }

  abortAll(): Promise<void> {
    return this.#host.ask.abortAll();
  }

  /**
   * New weights by their Hugging Face names, all of them. Resolves when the thread has copied them: until then they must
   * not change. Tokens drawn from then on carry this version.
   */
  updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void> {
    return this.#host.ask.updateWeights(version, weights);
  }

  /** The same from a Hugging Face folder, which holds all weights of the model and no others, as a trainer of this project writes them. */
  loadWeights(version: number, folder: string): Promise<void> {
    return this.#host.ask.loadWeights(version, folder);
  }

  /**
   * Reads the parameters of a trainer where they are, in place of a copy, and draws with them as this version. The trainer may change them only
   * while the engine is held; sharing them again as the next version lets it go on.
   */
  shareWeights(version: number, parameters: ReadonlyMap<string, Tensor>): Promise<void> {
    return this.#host.ask.shareWeights(version, parameters);
  }

  /** Goes on with weights that it shares, which the trainer has changed, as this version. */
  renewWeights(version: number): Promise<void> {
    return this.#host.ask.renewWeights(version);
  }

  /** Computes nothing more, from the end of the step under way, until it is released or weights are shared or renewed. Requests wait. */
  hold(): Promise<void> {
    return this.#host.ask.hold();
  }

  /** Goes on after `hold`. */
  release(): Promise<void> {
    return this.#host.ask.release();
  }

  /** Gives the memory of the cache back until the next request. Requests under way compute their keys and values again. */
  sleep(): Promise<void> {
    return this.#host.ask.sleep();
  }

  /** As of the last message of the thread: at most a step or 100 ms old. */
  status(): EngineStatus {
    const { ended } = this.#host;
    return ended === null ? this.#lastStatus : { ...this.#lastStatus, brokenBy: ended.message };
  }

  /** Aborts what runs, frees the model and ends the thread. */
  close(): Promise<void> {
    return this.#host.close(new RerollError("ENGINE_CLOSED", "This engine is closed."));
  }

  #expectRunning(): void {
    if (this.#host.ended !== null) throw this.#host.ended;
  }
}

/** What cannot be cloned must be refused now, and not when the message is sent. Looking is cheaper than cloning, and most requests are numbers and words. */
function clonable<Part extends Pick<GenerateRequest, "sampling">>(part: Part): Part {
  const isFlat = (value: unknown) =>
    Array.isArray(value) ? value.every(isPrimitive) : isPrimitive(value) || value === part.sampling;
  return [...Object.values(part), ...Object.values(part.sampling)].every(isFlat) ? part : structuredClone(part);
}

function isPrimitive(value: unknown): boolean {
  return value === null || !["object", "function", "symbol"].includes(typeof value);
}

/** The part of a request that streams: a callback that throws ends its own request, as one of this thread does. */
function openStream(onTokens: (tokens: SampledTokens) => void, signal: AbortSignal | undefined) {
  const stop = new AbortController();
  const abort = () => stop.abort();
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort, { once: true });
  let failure: Finish | null = null;
  const deliver = (tokens: SampledTokens) => {
    if (failure !== null) return;
    failure = deliverTokens(onTokens, tokens);
    if (failure !== null) abort();
  };
  return {
    part: { onTokens: oneWay(deliver), signal: stop.signal },
    failure: () => failure,
    close: () => signal?.removeEventListener("abort", abort),
  };
}

function broken(how: string): RerollError {
  return new RerollError("ENGINE_BROKEN", `The engine's thread ${how}. Start another engine.`);
}

function failed({ promptIds }: GenerateRequest, error: RerollError): Generation {
  return {
    ...joinTokens([]),
    finish: { kind: "failed", error },
    usage: { promptTokens: promptIds.length, cachedTokens: 0, generatedTokens: 0 },
  };
}

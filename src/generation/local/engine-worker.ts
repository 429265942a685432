/**
 * The thread of a ThreadedEngine: a LocalEngine behind messages.
 *
 * In: lists of `ToEngine`. Out: "ready", then one message per step with all that happened in it, so that the owner's event loop
 * wakes once per step and not once per token.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import { invariant } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import { native } from "../../torch/binding.ts";
import { receiveTensor } from "../../torch/parcel.ts";
import { tensorScope } from "../../torch/scope.ts";
import { copyWeights } from "./copy-weights.ts";
import {
  type EngineEvent,
  type EngineSource,
  type FromEngine,
  type NamedParcel,
  packError,
  packFinish,
  type RequestMessage,
  type ToEngine,
} from "./engine-messages.ts";
import { LocalEngine } from "./local-engine.ts";

/** How old the status can be that the owner sees, while nothing else is said. */
const STATUS_INTERVAL_MS = 100;

class EngineThread {
  readonly #port: MessagePort;
  readonly #model: CausalLm;
  readonly #engine: LocalEngine;
  readonly #aborts = new Map<number, () => void>();
  #outbox: EngineEvent[] = [];
  #isFlushing = false;
  #reportedSteps = 0;

  constructor(port: MessagePort, model: CausalLm, engine: LocalEngine) {
    this.#port = port;
    this.#model = model;
    this.#engine = engine;
    port.on("message", (messages: readonly ToEngine[]) => {
      for (const message of messages) this.#receive(message);
    });
    setInterval(() => this.#reportProgress(), STATUS_INTERVAL_MS).unref();
    const { vocabSize } = model.config;
    const status = engine.status();
    this.#post({ kind: "ready", status, limits: { vocabSize, contextLength: status.contextLength } });
  }

  #receive(message: ToEngine): void {
    switch (message.kind) {
      case "generate":
        void this.#generate(message.id, message.request);
        break;
      case "abort":
        this.#aborts.get(message.id)?.();
        break;
      case "resume":
        this.#engine.resume();
        break;
      case "pause":
        void this.#answer(message.id, () => this.#engine.pause());
        break;
      case "abortAll":
        void this.#answer(message.id, () => this.#engine.abortAll());
        break;
      case "weights":
        void this.#answer(message.id, async () => this.#updateWeights(message.version, message.weights));
        break;
      case "close":
        void this.#answer(message.id, () => this.#close());
        break;
    }
  }

  async #generate(id: number, { isStreaming, isAborted, ...request }: RequestMessage): Promise<void> {
    try {
      const begun = this.#engine.begin({
        ...request,
        ...(isStreaming ? { onTokens: (tokens) => this.#tell({ kind: "tokens", id, tokens }) } : {}),
      });
      this.#aborts.set(id, begun.abort);
      if (isAborted) begun.abort();
      const { finish, ...generation } = await begun.generation;
      this.#tell({ kind: "generation", id, generation, finish: packFinish(finish) });
    } catch (error) {
      this.#tell({ kind: "refused", id, error: packError(error) });
    }
    this.#aborts.delete(id);
  }

  async #answer(id: number, call: () => Promise<void>): Promise<void> {
    try {
      await call();
      this.#tell({ kind: "done", id });
    } catch (error) {
      this.#tell({ kind: "refused", id, error: packError(error) });
    }
  }

  #updateWeights(version: number, parcels: readonly NamedParcel[]): void {
    tensorScope(() => {
      const weights = new Map(parcels.map(({ name, parcel }) => [name, receiveTensor(parcel)]));
      this.#engine.updateWeights(version, (model) => copyWeights(model, weights));
    });
  }

  async #close(): Promise<void> {
    await this.#engine.close();
    this.#model.dispose();
  }

  /** Says it with everything else of this turn of the event loop, before the next step begins. */
  #tell(event: EngineEvent): void {
    this.#outbox.push(event);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => {
      this.#isFlushing = false;
      this.#report();
    });
  }

  #reportProgress(): void {
    if (this.#engine.status().counters.steps !== this.#reportedSteps) this.#report();
  }

  #report(): void {
    const status = this.#engine.status();
    const events = this.#outbox;
    this.#outbox = [];
    this.#reportedSteps = status.counters.steps;
    this.#post({ kind: "news", events, status });
  }

  #post(message: FromEngine): void {
    this.#port.postMessage(message);
  }
}

async function startThread(port: MessagePort, source: EngineSource): Promise<EngineThread> {
  const { device = "cpu", dtype, tokenizerFolder, version = 0, options = {}, numThreads } = source;
  if (numThreads !== undefined) native.setNumThreads(numThreads);
  const model = loadCausalLm(source.folder, { device, ...(dtype === undefined ? {} : { dtype }) });
  const loaded = tokenizerFolder === undefined ? {} : { tokenizer: await loadTokenizer(tokenizerFolder) };
  const engine = new LocalEngine(model, { ...options, ...loaded, version });
  engine.prepare();
  return new EngineThread(port, model, engine);
}

invariant(parentPort !== null, "engine-worker.ts is the first file of a worker thread");
try {
  await startThread(parentPort, workerData);
} catch (error) {
  parentPort.postMessage({ kind: "broken", error: packError(error) } satisfies FromEngine);
}

/**
 * A trainer in a thread of its own, so that the event loop stays free while it computes.
 *
 * Batches are copied over; weights, and the numbers that a step is asked for, come back without a copy. Calls run one after another, in order. When the thread fails,
 * every call rejects with the reason.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../errors/reroll-error.ts";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import { discardParcel, receiveTensor } from "../torch/parcel.ts";
import type { Tensor } from "../torch/tensor.ts";
import { startWorker } from "../workers/start-worker.ts";
import type { StepOptions, StepReport } from "./token-trainer.ts";
import type { Trainer } from "./trainer.ts";
import type { TrainerHostSource } from "./trainer-host.ts";
import type { FromTrainer, NamedParcel, TrainerCall } from "./trainer-messages.ts";

/** Loads a model in a new thread and trains it there. Rejects with the reason where that fails. The signal ends the thread. */
export function startThreadedTrainer(source: TrainerHostSource, signal?: AbortSignal): Promise<ThreadedTrainer> {
  const worker = startWorker(new URL("trainer-worker", import.meta.url), source);
  signal?.addEventListener("abort", () => void worker.terminate(), { once: true });
  return new Promise((resolve, reject) => {
    worker.once("error", (error) => reject(broken(error.message)));
    worker.once("exit", (code) => reject(broken(`it ended with code ${code}`)));
    worker.once("message", () => resolve(new ThreadedTrainer(worker)));
  });
}

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: RerollError) => void;
}

/** Made by startThreadedTrainer. */
export class ThreadedTrainer implements Trainer {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  #end: RerollError | null = null;
  /** The last call; the next one starts when it is over. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.on("message", (message: FromTrainer) => this.#receive(message));
    worker.on("error", (error) => this.#breakDown(broken(error.message)));
    worker.on("exit", (code) => this.#breakDown(broken(`it ended with code ${code}`)));
  }

  step(batch: SampleBatch, options: StepOptions = {}): Promise<StepReport> {
    return this.#inTurn(() => this.#call({ kind: "step", batch, options })) as Promise<StepReport>;
  }

  stepSupervised(samples: readonly TokenSample[]): Promise<StepReport> {
    return this.#inTurn(() => this.#call({ kind: "supervised", samples })) as Promise<StepReport>;
  }

  withWeights<Result>(use: (weights: ReadonlyMap<string, Tensor>) => Promise<Result>): Promise<Result> {
    return this.#inTurn(async () => {
      const parcels = (await this.#call({ kind: "weights" })) as readonly NamedParcel[];
      const weights = new Map<string, Tensor>();
      try {
        for (const { name, parcel } of parcels) weights.set(name, receiveTensor(parcel));
        return await use(weights);
      } finally {
        for (const { name, parcel } of parcels) if (!weights.has(name)) discardParcel(parcel);
        for (const tensor of weights.values()) tensor.dispose();
      }
    });
  }

  saveModel(folder: string): Promise<void> {
    return this.#inTurn(() => this.#call({ kind: "saveModel", folder })) as Promise<void>;
  }

  saveMerged(folder: string): Promise<void> {
    return this.#inTurn(() => this.#call({ kind: "saveMerged", folder })) as Promise<void>;
  }

  saveState(folder: string): Promise<void> {
    return this.#inTurn(() => this.#call({ kind: "saveState", folder })) as Promise<void>;
  }

  loadState(folder: string): Promise<void> {
    return this.#inTurn(() => this.#call({ kind: "loadState", folder })) as Promise<void>;
  }

  async close(): Promise<void> {
    if (this.#end !== null) return;
    await this.#inTurn(() => this.#call({ kind: "close" }));
    this.#end = broken("it was closed");
    await this.#worker.terminate();
  }

  /** Ends the thread at once, whatever it is doing. Calls under way reject. */
  async abandon(): Promise<void> {
    this.#breakDown(broken("it was abandoned"));
    await this.#worker.terminate();
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work, work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  #call(call: TrainerCall): Promise<unknown> {
    if (this.#end !== null) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      const id = this.#nextId++;
      this.#pending.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call });
    });
  }

  #receive(message: FromTrainer): void {
    if (message.kind === "ready") return;
    const pending = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.kind === "done") pending?.resolve(message.result);
    else pending?.reject(new RerollError(message.error.code, message.error.message));
  }

  #breakDown(error: RerollError): void {
    this.#end ??= error;
    for (const { reject } of this.#pending.values()) reject(this.#end);
    this.#pending.clear();
  }
}

function broken(reason: string): RerollError {
  return new RerollError("TRAINER_BROKEN", `The trainer's thread stopped: ${reason}.`);
}

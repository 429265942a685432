/**
 * Training as loops see it: steps, weights to publish, and a state that can be saved.
 *
 * This is also how a trainer in another thread is called: every method returns a promise, and takes and gives plain data, callbacks and tensors.
 */
import type { Metrics } from "../flow/metrics.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import type { WorkerMemory } from "../flow/worker-facts.ts";
import type { HeldFiles } from "../models/formats/file-sink.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { ExampleNumbers } from "./example-trainer.ts";
import type { StepOptions, StepReport } from "./token-trainer.ts";

export interface Trainer {
  /** One rollout's worth of updates. The batch is only read. */
  step(batch: SampleBatch, options?: StepOptions): Promise<StepReport>;
  /**
   * Runs `use` on the weights by their Hugging Face names, adapters added in. They are the trainer's own memory: no step runs
   * until `use` is done, and they must not be read after it. With "adapters", on those alone, for engines that have the rest: see adapterWeights.
   */
  withWeights<Result>(
    use: (weights: ReadonlyMap<string, Tensor>) => Promise<Result>,
    which?: "merged" | "adapters",
  ): Promise<Result>;
  /**
   * Runs `use` on the same weights, a layer at a time, for whoever sends them on: of a model that is sharded or split, the first rank never has more of
   * it whole. No step runs until all are through. Rejects as `use` does.
   */
  eachWeights(
    use: (weights: ReadonlyMap<string, Tensor>) => Promise<void>,
    which?: "merged" | "adapters",
  ): Promise<void>;
  /**
   * Runs `use` on the model's own parameters, by our names and with nothing added in, for an engine that is to read them from then on: it must
   * not draw while a step runs. For trainers of whole models without adapters: see sharesWeights in src/run.
   */
  withParameters<Result>(use: (parameters: ReadonlyMap<string, Tensor>) => Promise<Result>): Promise<Result>;
  /**
   * Writes weights and tokenizer in Hugging Face layout; of a model with adapters, the adapters as PEFT stores them. Up to `maxHeldBytes` (0) are
   * not written but given back as they are now: they belong to the caller, who writes them while training goes on.
   */
  saveModel(folder: string, maxHeldBytes?: number): Promise<HeldFiles>;
  /** Writes a whole model in any case, adapters added in, for servers that load one. */
  saveMerged(folder: string): Promise<void>;
  /** Writes everything that is needed to go on from here, or gives it back as `saveModel` does. */
  saveState(folder: string, maxHeldBytes?: number): Promise<HeldFiles>;
  loadState(folder: string): Promise<void>;
  /** What each rank holds, in their order. */
  memory(): Promise<readonly WorkerMemory[]>;
  close(): Promise<void>;
}

/** Training on given examples by an objective, and the model that comes out of it. */
export interface TuningTrainer extends Pick<Trainer, "saveModel" | "saveMerged" | "saveState" | "loadState" | "close"> {
  /** One update. */
  step(examples: readonly TuningExample[]): Promise<StepReport>;
  /** The loss of the examples as they are, named `loss`, and the metrics of the objective. */
  evaluate(examples: readonly TuningExample[]): Promise<Metrics>;
  /**
   * What the objective has to know of each example beforehand, as a reference sees it: the model that the trainer was told, or the one it
   * trains. Call it before the first step and before `loadState`.
   */
  measure(examples: readonly TuningExample[]): Promise<readonly ExampleNumbers[]>;
}

/** A model, its optimizers, and everything that is done to them. Runs in a trainer's thread, or without one. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { invariant } from "../errors/reroll-error.ts";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { mergedWeights } from "../models/causal-lm/merged-weights.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { SupervisedTrainer } from "./supervised-trainer.ts";
import type { StepOptions, StepReport, TokenTrainerState } from "./token-trainer.ts";
import type { Trainer } from "./trainer.ts";
import { loadCritic, loadOptimizer, saveCritic, saveModel, saveOptimizer } from "./trainer-checkpoint.ts";
import { buildOptimizer, buildSchedule, type OptimizerOptions, type ScheduleOptions } from "./trainer-options.ts";
import { buildTrainer, loadPolicy, type TrainerParts, type TrainerSource } from "./trainer-source.ts";

/** The optimizer of supervised steps; it has a state of its own. */
interface SupervisedSource {
  readonly optimizer: OptimizerOptions;
  readonly schedule: ScheduleOptions;
  readonly numUpdates: number;
}

export interface TrainerHostSource {
  readonly source: TrainerSource;
  readonly supervised: SupervisedSource | null;
}

interface SavedCounters {
  readonly trainer: TokenTrainerState;
  readonly supervisedUpdates: number;
}

/** Trains a model that is all here. Calls must not overlap. */
export class TrainerHost implements Trainer {
  readonly #source: TrainerHostSource;
  readonly #files: ReadonlyMap<string, Uint8Array>;
  readonly #parts: TrainerParts;
  readonly #supervisedOptimizer: Optimizer | null;
  #supervised: SupervisedTrainer | null;

  private constructor(host: TrainerHostSource, parts: TrainerParts, files: ReadonlyMap<string, Uint8Array>) {
    this.#source = host;
    this.#files = files;
    this.#parts = parts;
    const { supervised } = host;
    this.#supervisedOptimizer =
      supervised === null ? null : buildOptimizer(parts.model.namedParameters(), supervised.optimizer);
    this.#supervised = this.#supervisedFrom(0);
  }

  static async create(host: TrainerHostSource): Promise<TrainerHost> {
    const tokenizer = await loadTokenizer(host.source.tokenizerFolder);
    return new TrainerHost(host, await buildTrainer(host.source, loadPolicy(host.source)), tokenizer.files);
  }

  step(batch: SampleBatch, options: StepOptions = {}): Promise<StepReport> {
    return this.#parts.trainer.step(batch, options);
  }

  async stepSupervised(samples: readonly TokenSample[]): Promise<StepReport> {
    invariant(this.#supervised !== null, "supervised steps need the options of supervised training");
    return this.#supervised.step(samples);
  }

  async withWeights<Result>(use: (weights: ReadonlyMap<string, Tensor>) => Promise<Result>): Promise<Result> {
    const weights = tensorScope(() => mergedWeights(this.#parts.model));
    try {
      return await use(weights);
    } finally {
      for (const weight of weights.values()) weight.dispose();
    }
  }

  async saveModel(folder: string): Promise<void> {
    saveModel(this.#parts.model, folder, this.#files);
  }

  async saveMerged(folder: string): Promise<void> {
    saveCausalLm(this.#parts.model, folder, { files: this.#files, isMerged: true });
  }

  async saveState(folder: string): Promise<void> {
    mkdirSync(folder, { recursive: true });
    const { model, optimizer, critic, trainer } = this.#parts;
    saveOptimizer(optimizer, trainableOf(model), join(folder, "policy"));
    if (this.#supervisedOptimizer !== null)
      saveOptimizer(this.#supervisedOptimizer, new Map(), join(folder, "supervised"));
    if (critic !== null) saveCritic(critic, join(folder, "critic"));
    const counters: SavedCounters = { trainer: trainer.state, supervisedUpdates: this.#supervised?.numUpdates ?? 0 };
    writeFileSync(join(folder, "trainer.json"), `${JSON.stringify(counters)}\n`);
  }

  async loadState(folder: string): Promise<void> {
    const { model, optimizer, critic, trainer } = this.#parts;
    const counters = JSON.parse(readFileSync(join(folder, "trainer.json"), "utf8")) as SavedCounters;
    loadOptimizer(optimizer, trainableOf(model), join(folder, "policy"));
    if (this.#supervisedOptimizer !== null)
      loadOptimizer(this.#supervisedOptimizer, new Map(), join(folder, "supervised"));
    if (critic !== null) loadCritic(critic, join(folder, "critic"));
    trainer.restore(counters.trainer);
    this.#supervised = this.#supervisedFrom(counters.supervisedUpdates);
  }

  async close(): Promise<void> {
    this.#parts.model.dispose();
    this.#parts.optimizer.dispose();
    this.#supervisedOptimizer?.dispose();
    this.#parts.critic?.model.dispose();
    this.#parts.critic?.head.dispose();
    this.#parts.critic?.optimizer.dispose();
  }

  #supervisedFrom(numUpdates: number): SupervisedTrainer | null {
    const { supervised, source } = this.#source;
    if (supervised === null || this.#supervisedOptimizer === null) return null;
    const { maxTokensPerMicrobatch, maxGradNorm, recompute } = source.training;
    const length = { numUpdates: supervised.numUpdates, updatesPerRolloutStep: 1 };
    return new SupervisedTrainer(
      {
        model: this.#parts.model,
        optimizer: this.#supervisedOptimizer,
        schedule: buildSchedule(supervised.schedule, length),
        ranks: this.#parts.ranks,
        options: { maxTokensPerMicrobatch, maxGradNorm, recompute },
      },
      numUpdates,
    );
  }
}

function trainableOf(model: CausalLm): ReadonlyMap<string, Tensor> {
  return new Map([...model.namedParameters()].filter(([, parameter]) => parameter.requiresGrad));
}

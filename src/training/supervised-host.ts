/** A model, the optimizer of supervised steps, and what is done to both. Runs in a trainer's thread, or without one. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { type SupervisedState, SupervisedTrainer } from "./supervised-trainer.ts";
import type { StepReport } from "./token-trainer.ts";
import type { SupervisedTraining } from "./trainer.ts";
import { loadOptimizer, saveModel, saveOptimizer, trainableOf } from "./trainer-checkpoint.ts";
import { buildOptimizer, buildSchedule, type OptimizerOptions, type ScheduleOptions } from "./trainer-options.ts";
import { joinRanks, loadPolicy, type TrainerSource } from "./trainer-source.ts";

/** What supervised training is started with: a model, where it is trained, and how. */
export interface SupervisedSource
  extends Omit<TrainerSource, "reference" | "critic" | "algorithm" | "length" | "temperature"> {
  readonly optimizer: OptimizerOptions;
  readonly schedule: ScheduleOptions;
  readonly numUpdates: number;
}

/** Trains a model that is all here. Calls must not overlap. */
export class SupervisedHost implements SupervisedTraining {
  readonly #model: CausalLm;
  readonly #optimizer: Optimizer;
  readonly #trainer: SupervisedTrainer;
  readonly #files: ReadonlyMap<string, Uint8Array>;

  private constructor(
    model: CausalLm,
    optimizer: Optimizer,
    trainer: SupervisedTrainer,
    files: ReadonlyMap<string, Uint8Array>,
  ) {
    this.#model = model;
    this.#optimizer = optimizer;
    this.#trainer = trainer;
    this.#files = files;
  }

  /** Resolves when all ranks are there. They then have the weights of rank 0. */
  static async create(source: SupervisedSource): Promise<SupervisedHost> {
    const { files } = await loadTokenizer(source.tokenizerFolder);
    const model = loadPolicy(source);
    const optimizer = buildOptimizer(model.namedParameters(), source.optimizer);
    const { rank, device, training, numUpdates } = source;
    const { maxTokensPerMicrobatch, maxGradNorm, recompute } = training;
    const trainer = new SupervisedTrainer({
      model,
      optimizer,
      schedule: buildSchedule(source.schedule, { numUpdates, updatesPerRolloutStep: 1 }),
      ranks: rank === undefined ? undefined : await joinRanks(rank, device, model.namedParameters()),
      options: { maxTokensPerMicrobatch, maxGradNorm, recompute },
    });
    return new SupervisedHost(model, optimizer, trainer, files);
  }

  step(samples: readonly TokenSample[]): Promise<StepReport> {
    return this.#trainer.step(samples);
  }

  async saveModel(folder: string): Promise<void> {
    saveModel(this.#model, folder, this.#files);
  }

  async saveMerged(folder: string): Promise<void> {
    saveCausalLm(this.#model, folder, { files: this.#files, isMerged: true });
  }

  async saveState(folder: string): Promise<void> {
    saveOptimizer(this.#optimizer, trainableOf(this.#model), join(folder, "policy"));
    writeFileSync(join(folder, "trainer.json"), `${JSON.stringify(this.#trainer.state)}\n`);
  }

  async loadState(folder: string): Promise<void> {
    loadOptimizer(this.#optimizer, trainableOf(this.#model), join(folder, "policy"));
    this.#trainer.restore(JSON.parse(readFileSync(join(folder, "trainer.json"), "utf8")) as SupervisedState);
  }

  async close(): Promise<void> {
    this.#model.dispose();
    this.#optimizer.dispose();
  }
}

/** A model, an objective, its optimizer, and what is done to them. Runs in a trainer's thread, or without one. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { loadSequenceClassifier } from "../models/causal-lm/load-classifier.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { type HeldFiles, HoldingSink } from "../models/formats/file-sink.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import type { NamedParameters } from "../torch/optim/parameter-group.ts";
import { type ExampleNumbers, ExampleTrainer, type ExampleTrainerState } from "./example-trainer.ts";
import type { Objective } from "./objectives/objective.ts";
import { buildObjective, type ObjectiveChoice } from "./objectives/table.ts";
import { putJson } from "./state-files.ts";
import type { StrategyBuilder } from "./strategy/strategy.ts";
import type { StepReport } from "./token-trainer.ts";
import type { TuningTrainer } from "./trainer.ts";
import { loadOptimizer, saveModel, saveOptimizer } from "./trainer-checkpoint.ts";
import {
  buildOptimizer,
  buildSchedule,
  type OptimizerOptions,
  type ScheduleOptions,
  type TrainingOptions,
} from "./trainer-options.ts";
import { joinStrategy, loadPolicy, type TrainerSource } from "./trainer-source.ts";

/** What training on examples is started with: a model, where it is trained, for what and how. Plain data. */
export interface TuningSource
  extends Omit<TrainerSource, "reference" | "critic" | "algorithm" | "length" | "temperature" | "training"> {
  readonly objective: ObjectiveChoice;
  /** Folder of the model that `measure` asks. null: the model that is trained, before its first step. */
  readonly reference: string | null;
  readonly training: Pick<
    TrainingOptions,
    "maxTokensPerMicrobatch" | "maxGradNorm" | "recompute" | "ranks" | "strategy"
  >;
  readonly optimizer: OptimizerOptions;
  readonly schedule: ScheduleOptions;
  readonly numUpdates: number;
}

interface TuningParts {
  readonly source: TuningSource;
  readonly model: CausalLm;
  readonly objective: Objective;
  readonly optimizer: Optimizer;
  readonly trainer: ExampleTrainer;
  readonly strategy: StrategyBuilder;
  /** Files to put beside saved weights. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** Trains a model that is all here. Calls must not overlap. */
export class TuningHost implements TuningTrainer {
  readonly #parts: TuningParts;

  private constructor(parts: TuningParts) {
    this.#parts = parts;
  }

  /** Resolves when all ranks are there. They then have the weights of rank 0. */
  static async create(source: TuningSource): Promise<TuningHost> {
    const { files } = await loadTokenizer(source.tokenizerFolder);
    const scorer = source.objective.type === "reward-model" ? loadSequenceClassifier(source.modelFolder, source) : null;
    const strategy = await joinStrategy(source);
    const model = loadPolicy(source, strategy, scorer?.decoder);
    const objective = buildObjective(source.objective, model, source.seed, scorer?.head);
    const parameters: NamedParameters = new Map([
      ...model.namedParameters(),
      ...(objective.extension?.parameters ?? []),
    ]);
    const optimizer = await strategy.optimize(model, parameters, (some, isMatrix) =>
      buildOptimizer(some, source.optimizer, isMatrix),
    );
    const { training, numUpdates } = source;
    const { maxTokensPerMicrobatch, maxGradNorm, recompute } = training;
    const trainer = new ExampleTrainer({
      model,
      objective,
      trainable: [...parameters.values()].filter(({ requiresGrad }) => requiresGrad),
      optimizer,
      schedule: buildSchedule(source.schedule, { numUpdates, updatesPerRolloutStep: 1 }),
      strategy,
      options: { maxTokensPerMicrobatch, maxGradNorm, recompute },
    });
    return new TuningHost({ source, model, objective, optimizer, trainer, strategy, files });
  }

  step(examples: readonly TuningExample[]): Promise<StepReport> {
    return this.#parts.trainer.step(examples);
  }

  evaluate(examples: readonly TuningExample[]): Promise<Metrics> {
    return this.#parts.trainer.evaluate(examples);
  }

  /** A reference of its own is in memory only while it is asked. */
  async measure(examples: readonly TuningExample[]): Promise<readonly ExampleNumbers[]> {
    const { source, model, objective, trainer } = this.#parts;
    if (source.reference === null || objective.measure === undefined) return trainer.measure(examples, model);
    const reference = loadCausalLm(source.reference, { device: source.device, dtype: source.dtype });
    try {
      return trainer.measure(examples, reference);
    } finally {
      reference.dispose();
    }
  }

  async saveModel(folder: string, maxHeldBytes = 0): Promise<HeldFiles> {
    const { source, model, objective, files, strategy } = this.#parts;
    const sink = new HoldingSink(maxHeldBytes);
    const to = { isWriter: strategy.isFirst, sink };
    if (objective.extension === undefined) saveModel(model, folder, files, source.modelFolder, to);
    else if (strategy.isFirst) objective.extension.saveModel(folder, files, sink);
    return sink.release();
  }

  async saveMerged(folder: string): Promise<void> {
    const { model, files, strategy } = this.#parts;
    saveCausalLm(model, folder, { files, isMerged: true, isWriter: strategy.isFirst });
  }

  async saveState(folder: string, maxHeldBytes = 0): Promise<HeldFiles> {
    const { optimizer, trainer, strategy } = this.#parts;
    const sink = new HoldingSink(maxHeldBytes);
    saveOptimizer(strategy, optimizer, join(folder, "policy"), sink);
    if (strategy.isFirst) putJson(sink, join(folder, "trainer.json"), trainer.state);
    return sink.release();
  }

  async loadState(folder: string): Promise<void> {
    const { optimizer, trainer, strategy } = this.#parts;
    loadOptimizer(strategy, optimizer, join(folder, "policy"));
    trainer.restore(JSON.parse(readFileSync(join(folder, "trainer.json"), "utf8")) as ExampleTrainerState);
  }

  async close(): Promise<void> {
    this.#parts.model.dispose();
    this.#parts.objective.extension?.dispose();
    this.#parts.optimizer.dispose();
  }
}

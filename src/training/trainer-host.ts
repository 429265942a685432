/** A model, its optimizers, and everything that is done to them. Runs in a trainer's thread, or without one. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { WorkerMemory } from "../flow/worker-facts.ts";
import { adapterWeights } from "../models/causal-lm/adapter-weights.ts";
import { isQuantized } from "../models/causal-lm/quantize-model.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { layersOf, layerWeights, wholeWeights } from "../models/causal-lm/whole-weights.ts";
import { type HeldFiles, HoldingSink } from "../models/formats/file-sink.ts";
import { devicePeakBytes } from "../torch/memory.ts";
import { AdamW } from "../torch/optim/adamw.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { heldBytes } from "./roles/held-bytes.ts";
import { moveCritic } from "./roles/role-host.ts";
import { putJson } from "./state-files.ts";
import type { StepOptions, StepReport, TokenTrainerState } from "./token-trainer.ts";
import type { Trainer } from "./trainer.ts";
import { loadCritic, loadOptimizer, saveCritic, saveModel, saveOptimizer } from "./trainer-checkpoint.ts";
import { buildTrainer, type TrainerParts, type TrainerSource } from "./trainer-source.ts";

interface SavedCounters {
  readonly trainer: TokenTrainerState;
}

/** Trains a model that is all here. Calls must not overlap. */
export class TrainerHost implements Trainer {
  readonly #files: ReadonlyMap<string, Uint8Array>;
  readonly #modelFolder: string;
  readonly #parts: TrainerParts;
  readonly #source: Pick<TrainerSource, "device" | "sleeping">;

  private constructor(parts: TrainerParts, files: ReadonlyMap<string, Uint8Array>, source: TrainerSource) {
    this.#files = files;
    this.#modelFolder = source.modelFolder;
    this.#parts = parts;
    this.#source = source;
    this.#moveSleepers("cpu");
  }

  static async create(source: TrainerSource): Promise<TrainerHost> {
    const tokenizer = await loadTokenizer(source.tokenizerFolder);
    return new TrainerHost(await buildTrainer(source), tokenizer.files, source);
  }

  async step(batch: SampleBatch, options: StepOptions = {}): Promise<StepReport> {
    this.#moveSleepers(this.#source.device);
    try {
      return await this.#parts.trainer.step(batch, options);
    } finally {
      this.#moveSleepers("cpu");
    }
  }

  async withWeights<Result>(
    use: (weights: ReadonlyMap<string, Tensor>) => Promise<Result>,
    which: "merged" | "adapters" = "merged",
  ): Promise<Result> {
    const { model, strategy } = this.#parts;
    const weights = tensorScope(() =>
      isQuantized(model) || which === "adapters"
        ? adapterWeights(model)
        : wholeWeights(model, { isMerged: true, isKept: strategy.isFirst }),
    );
    try {
      return await use(weights);
    } finally {
      for (const weight of weights.values()) weight.dispose();
    }
  }

  async eachWeights(
    use: (weights: ReadonlyMap<string, Tensor>) => Promise<void>,
    which: "merged" | "adapters" = "merged",
  ): Promise<void> {
    const { model, strategy } = this.#parts;
    if (isQuantized(model) || which === "adapters") return this.withWeights(use, which);
    const { isFirst } = strategy;
    let failure: { readonly cause: unknown } | null = null;
    for (const layer of layersOf(model)) {
      const weights = tensorScope(() => layerWeights(model, layer, { isMerged: true, isKept: isFirst }));
      try {
        if (isFirst && failure === null) await use(weights);
      } catch (cause) {
        // The other ranks give their parts of all layers in any case.
        failure = { cause };
      } finally {
        for (const weight of weights.values()) weight.dispose();
      }
    }
    if (failure !== null) throw failure.cause;
  }

  async withParameters<Result>(use: (parameters: ReadonlyMap<string, Tensor>) => Promise<Result>): Promise<Result> {
    const own = this.#parts.model.namedParameters();
    const parameters = new Map([...own].map(([name, parameter]) => [name, parameter.detach()]));
    try {
      return await use(parameters);
    } finally {
      for (const parameter of parameters.values()) parameter.dispose();
    }
  }

  async saveModel(folder: string, maxHeldBytes = 0): Promise<HeldFiles> {
    const { model, strategy } = this.#parts;
    const sink = new HoldingSink(maxHeldBytes);
    saveModel(model, folder, this.#files, this.#modelFolder, { isWriter: strategy.isFirst, sink });
    return sink.release();
  }

  async saveMerged(folder: string): Promise<void> {
    const { model, strategy } = this.#parts;
    saveCausalLm(model, folder, { files: this.#files, isMerged: true, isWriter: strategy.isFirst });
  }

  async saveState(folder: string, maxHeldBytes = 0): Promise<HeldFiles> {
    const { optimizer, critic, trainer, strategy } = this.#parts;
    const sink = new HoldingSink(maxHeldBytes);
    saveOptimizer(strategy, optimizer, join(folder, "policy"), sink);
    if (critic !== null) saveCritic(strategy, critic, join(folder, "critic"), sink);
    const counters: SavedCounters = { trainer: trainer.state };
    if (strategy.isFirst) putJson(sink, join(folder, "trainer.json"), counters);
    return sink.release();
  }

  async loadState(folder: string): Promise<void> {
    const { optimizer, critic, trainer, strategy } = this.#parts;
    const counters = JSON.parse(readFileSync(join(folder, "trainer.json"), "utf8")) as SavedCounters;
    this.#moveSleepers(this.#source.device);
    loadOptimizer(strategy, optimizer, join(folder, "policy"));
    if (critic !== null) loadCritic(strategy, critic, join(folder, "critic"));
    trainer.restore(counters.trainer);
    this.#moveSleepers("cpu");
  }

  async memory(): Promise<readonly WorkerMemory[]> {
    const { model, optimizer, critic, reference } = this.#parts;
    const { sleeping = [], device } = this.#source;
    const isAway = device !== "cpu";
    const roles = [
      heldBytes("trainer", { modules: [model], optimizer }),
      ...(critic === null
        ? []
        : [
            heldBytes("critic", {
              modules: [critic.model, critic.head],
              optimizer: critic.optimizer,
              isAsleep: isAway && sleeping.includes("critic"),
            }),
          ]),
      ...(reference === null
        ? []
        : [heldBytes("reference", { modules: [reference], isAsleep: isAway && sleeping.includes("reference") })]),
    ];
    return [{ roles, peakBytes: devicePeakBytes(device) }];
  }

  async close(): Promise<void> {
    this.#parts.model.dispose();
    this.#parts.optimizer.dispose();
    this.#parts.critic?.model.dispose();
    this.#parts.critic?.head.dispose();
    this.#parts.critic?.optimizer.dispose();
  }

  /** What sleeps between steps is on the device within them, and in host memory otherwise. */
  #moveSleepers(device: string): void {
    const { critic, optimizer } = this.#parts;
    const { sleeping = [] } = this.#source;
    if (sleeping.includes("critic") && critic !== null) moveCritic(critic, device);
    if (sleeping.includes("optimizer") && optimizer instanceof AdamW) optimizer.moveState(device);
  }
}

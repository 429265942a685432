/** The same three steps under a strategy and on one rank: how far apart weights and metrics are. */
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildEnv } from "../../src/envs/catalog.ts";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { CausalLmConfig } from "../../src/models/causal-lm/config.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { prepareModel } from "../../src/run/prepare-model.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { startTrainer } from "../../src/training/start-trainer.ts";
import type { Trainer } from "../../src/training/trainer.ts";
import { trainingOptions } from "../../src/training/trainer-options.ts";
import type { TrainerSource } from "../../src/training/trainer-source.ts";
import { exampleConfig } from "../cli/example-run.ts";
import { type BatchName, batchOf, type RecipeCase } from "./token-batches.ts";

export interface ParityCase {
  readonly model: "qwen2" | "qwen3" | "qwen3-moe" | "llama";
  readonly isLora?: boolean;
  readonly hasCritic?: boolean;
  readonly ranks: number;
  readonly strategy: Readonly<Record<string, unknown>>;
  readonly recompute?: boolean;
  /** Four layers and heads of keys in place of two: a stage needs one, and so does a part of a layer. */
  readonly isDeep?: boolean;
  /** Default: GRPO, or PPO with a critic, with a KL term. */
  readonly recipe?: RecipeCase;
}

export interface Outcome {
  readonly weights: ReadonlyMap<string, readonly number[]>;
  readonly metrics: readonly Metrics[];
}

const folder = mkdtempSync(join(tmpdir(), "strategies-"));
const tokenizerFolder = await prepareModel(exampleConfig(), [buildEnv({ type: "frozen-lake" })], folder);
// An epsilon above the rounding of gradients: AdamW divides by their size.
const optimizer = { lr: 1e-3, eps: 1e-3, weightDecay: 0.1 };

export function sourceOf(
  { model, isLora = false, hasCritic = false, ranks, strategy, recompute = false, isDeep = false, recipe }: ParityCase,
  place: Partial<TrainerSource> = {},
): TrainerSource {
  const minibatch = recipe?.minibatchTrajectories ?? 0;
  const cut = { maxTokensPerMicrobatch: 120, minibatch };
  const training = trainingOptions.parse({ optimizer, ranks, strategy, recompute, ...cut });
  const modelFolder = isDeep ? deepModel(model) : new URL(`../../fixtures/hf-tiny/${model}`, import.meta.url).pathname;
  return {
    modelFolder,
    tokenizerFolder,
    device: "cpu",
    dtype: "float32",
    lora: isLora ? { rank: 4, alpha: 8, targets: "all-linear" } : null,
    reference: isLora ? "base" : modelFolder,
    critic: hasCritic ? { modelFolder, optimizer: training.optimizer, warmupUpdates: 0 } : null,
    algorithm: recipe?.choice ?? { type: hasCritic ? "ppo" : "grpo", klLoss: { coefficient: 0.05 } },
    training,
    length: { numUpdates: 10, updatesPerRolloutStep: 1 },
    temperature: 1,
    seed: 1,
    numThreads: 1,
    ...place,
  };
}

export function deepConfig(name: ParityCase["model"]): CausalLmConfig {
  return tinyConfig(name === "qwen3-moe" ? "qwen3_moe" : name, { numLayers: 4, numKeyValueHeads: 4 });
}

/** A model of a family with four layers. */
function deepModel(name: ParityCase["model"]): string {
  const place = join(folder, `deep-${name}`);
  if (existsSync(place)) return place;
  const model = tinyModel(deepConfig(name));
  saveCausalLm(model, place);
  model.dispose();
  return place;
}

/** Three optimizer steps, and what came out of them. */
export async function train(source: TrainerSource, batch: BatchName = "mixed"): Promise<Outcome> {
  const trainer = await startTrainer(source);
  try {
    const metrics: Metrics[] = [];
    for (let step = 0; step < 3; step++) {
      metrics.push((await trainer.step(batchOf(batch, step))).metrics);
    }
    return { weights: await weightsOf(trainer), metrics };
  } finally {
    await trainer.close();
  }
}

export function weightsOf(trainer: Trainer): Promise<Outcome["weights"]> {
  return trainer.withWeights(
    async (weights) =>
      new Map([...weights].map(([name, value]) => [name, value.reshape(-1).to("float32").toArray() as number[]])),
  );
}

/** The largest distance of two weights, and of two metrics, taken against their size where that is above 1. */
export function distance(
  one: Outcome,
  other: Outcome,
  isCompared: (metric: string) => boolean = () => true,
): { readonly weights: number; readonly metrics: number; readonly worst: string } {
  let [weights, metrics, worst] = [0, 0, ""];
  for (const [name, values] of one.weights) {
    const others = other.weights.get(name)!;
    for (const [i, value] of values.entries()) weights = Math.max(weights, Math.abs(value - others[i]!));
  }
  for (const [step, values] of one.metrics.entries())
    for (const [name, value] of Object.entries(values).filter(([metric]) => isCompared(metric))) {
      const gap = Math.abs(value - (other.metrics[step]![name] ?? Number.NaN)) / Math.max(1, Math.abs(value));
      if (!(gap <= metrics))
        [metrics, worst] = [gap, `${name} of step ${step}: ${value} and ${other.metrics[step]![name]}`];
    }
  return { weights, metrics, worst };
}

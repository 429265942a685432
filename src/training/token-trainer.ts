/**
 * One training step on token samples: score the whole rollout, then update in minibatches.
 *
 * In: an immutable batch. Out: a report; the weights have changed. Denominators are those of each update, so that the cut into
 * microbatches changes nothing. Knows nothing of environments or engines.
 */

import { readCorrectionMetrics } from "../algorithms/corrections/correction-metrics.ts";
import { entropyBonus } from "../algorithms/losses/entropy-bonus.ts";
import { addMetrics, readMetrics } from "../algorithms/losses/loss-metrics.ts";
import { maskedMean } from "../algorithms/masked.ts";
import type { Measured, Recipe, RecipeState } from "../algorithms/recipe-runner/recipe.ts";
import { globalDenominators, mergeDenominators } from "../algorithms/reduce.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { CorrectionMetrics, LossMetrics } from "../flow/batch-statistics.ts";
import type { Metrics } from "../flow/metrics.ts";
import { type ScoredBatch, type ScoredRows, selectRows, type TokenBatch } from "../flow/token-batch.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { withoutLora } from "../models/causal-lm/lora.ts";
import { deriveSeed, Random } from "../random/random.ts";
import { noGrad } from "../torch/autograd.ts";
import { tensor } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import { clipGradNorm } from "../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { applySchedule, type Schedule } from "../torch/optim/schedule.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { type Critic, type MeasuredPolicy, measureAll, measurePolicy, measureValues } from "./measure-rows.ts";
import { forwardParts, type Grid, gridConstants, gridOf, packTokens } from "./token-rows.ts";
import type { TrainerRanks } from "./trainer-ranks.ts";
import { type SampleNumbers, TrainerReading } from "./trainer-reading.ts";

export interface TokenTrainerParts {
  readonly model: CausalLm;
  readonly recipe: Recipe;
  readonly optimizer: Optimizer;
  /** Factor on the learning rate, by the number of updates done, or of those planned: see `updatesPerStep`. */
  readonly schedule: Schedule;
  /** The policy that KL is measured to: a frozen model, or this one without its LoRA adapters. */
  readonly reference: CausalLm | "base" | null;
  readonly critic: TrainedCritic | null;
  /** The other ranks, when each batch is spread over several trainers. */
  readonly ranks?: TrainerRanks;
  readonly options: TokenTrainerOptions;
}

export interface TrainedCritic extends Critic {
  readonly optimizer: Optimizer;
  /** Updates in which only the critic learns, while its values mean nothing yet. */
  readonly warmupUpdates: number;
}

export interface TokenTrainerOptions {
  /** The temperature the tokens were sampled with. */
  readonly temperature: number;
  /** Bounds the memory of a forward and backward pass. */
  readonly maxTokensPerMicrobatch: number;
  /** Trajectories per update; 0 for one update per rollout. */
  readonly minibatchTrajectories: number;
  readonly maxGradNorm: number;
  /**
   * Updates that the schedule has planned for a step. A step that makes more or fewer, because of replays or failed samples, moves
   * the schedule on by as much, so that it ends when the run does. Default: the schedule counts the updates that were made.
   */
  readonly updatesPerStep?: number;
  /** Trade time for memory in the backward pass. */
  readonly recompute: boolean;
  readonly seed: number;
}

/** The outcome of a step. */
export interface StepReport {
  readonly numUpdates: number;
  readonly metrics: Metrics;
  /** Numbers per token of the samples that `StepOptions.numbersOf` asked for, by their place in the batch. */
  readonly numbers?: ReadonlyMap<number, SampleNumbers>;
  /** Mean |return - value| over the loss tokens of each sample, before the updates. For recipes with a critic. */
  readonly tdErrors?: Float32Array;
}

export interface StepOptions {
  /** Samples whose tokens are reported on, by their place in the batch. Default none, which costs nothing. */
  readonly numbersOf?: readonly number[];
}

/** The state that changes from step to step, apart from weights and optimizer. Plain data. */
export interface TokenTrainerState {
  readonly numSteps: number;
  readonly numUpdates: number;
  readonly recipe: RecipeState;
}

export class TokenTrainer {
  readonly #parts: TokenTrainerParts;
  #state: TokenTrainerState;

  constructor(parts: TokenTrainerParts) {
    this.#parts = parts;
    this.#state = { numSteps: 0, numUpdates: 0, recipe: parts.recipe.initialState };
    const { recipe, reference, critic } = parts;
    if (recipe.needs.includes("referenceLogprobs_BT") && reference === null)
      throw missingPart(recipe, "a reference model");
    if (recipe.hasCritic && critic === null) throw missingPart(recipe, "a critic");
  }

  get state(): TokenTrainerState {
    return this.#state;
  }

  /** Goes on from a saved state; weights and optimizer are restored by whoever holds them. */
  restore(state: TokenTrainerState): void {
    this.#state = state;
  }

  async step(batch: SampleBatch, { numbersOf = [] }: StepOptions = {}): Promise<StepReport> {
    if (batch.samples.length === 0) throw new RerollError("EMPTY_BATCH", "The batch has no samples to train on.");
    const before = this.#state.numUpdates;
    const grid = gridOf(batch.samples);
    const reading = new TrainerReading(grid, numbersOf);
    const scored = this.#score(grid, batch.version, reading);
    try {
      const sums = new MetricSums();
      const { recipe } = this.#parts;
      for (let epoch = 0; epoch < recipe.numEpochs; epoch++) {
        const minibatches = await this.#minibatches(grid, epoch);
        for (const [i, rows] of minibatches.entries()) {
          const place = { index: epoch * minibatches.length + i, count: recipe.numEpochs * minibatches.length };
          await this.#update(grid, scored, rows, this.#factorAt(place), { sums, reading });
        }
      }
      const metrics = { ...readCorrectionMetrics(scored.metrics), ...sums.read() };
      await this.#advance(metrics, batch.samples.length, scored);
      const numUpdates = this.#state.numUpdates - before;
      return {
        numUpdates,
        metrics: { ...metrics, "train/updates": numUpdates },
        ...(numbersOf.length > 0 && { numbers: reading.read(scored) }),
        ...tdErrorsOf(scored),
      };
    } finally {
      reading.dispose();
      disposeScored(scored);
    }
  }

  /** Everything that must see the whole rollout, before the weights change. */
  #score(grid: Grid, version: number, reading: TrainerReading): ScoredBatch {
    const { recipe, model } = this.#parts;
    return noGrad(() =>
      tensorScope(() => {
        const { device } = model.embedding;
        const { lossMask_BT, samplerLogprobs_BT, rewards_BT, versions_BT } = gridConstants(grid, device);
        const batch: TokenBatch = {
          lossMask_BT,
          samplerLogprobs_BT,
          rewards_BT,
          ...this.#measure(grid, reading),
          ...weightsOf(grid, device),
          groupOf: grid.samples.map(({ group }) => group),
          isTruncated: grid.samples.map(({ isTruncated }) => isTruncated),
          versions: { versions_BT, current: version },
          steps: {
            trajectoryOf: grid.samples.map(({ trajectory }) => trajectory),
            turnOf: grid.samples.map(({ turn }) => turn),
            stateOf: grid.samples.map(({ stateKey }) => stateKey),
          },
        };
        const scored = recipe.score(batch, this.#state.recipe);
        const metrics = { ...scored.metrics, ...samplerGap(batch), ...stalenessOf(batch) };
        return keepScored({ ...scored, metrics });
      }),
    );
  }

  /** Measures what the recipe needs from models: log-probs of the anchor and the reference, values of the critic. */
  #measure(grid: Grid, reading: TrainerReading): Partial<TokenBatch> {
    const { recipe, model, reference, critic, options } = this.#parts;
    const { device } = model.embedding;
    const everyRow = grid.samples.map((_, row) => row);
    const parts = forwardParts(grid, everyRow, options.maxTokensPerMicrobatch);
    const settings = { temperature: options.temperature, recompute: false };
    const logprobsOf = (measured: CausalLm, see?: TrainerReading) =>
      measureAll(grid, parts, device, (packed, rows) => {
        const policy = measurePolicy(measured, packed, settings);
        see?.add(rows, policy);
        return { logprobs: policy.logprobs_BT };
      }).logprobs;
    const needs = new Set(recipe.needs);
    const values =
      critic === null || !recipe.hasCritic
        ? null
        : measureAll(grid, parts, device, (packed) => ({ ...measureValues(critic, packed, false) }));
    return {
      ...(needs.has("anchorLogprobs_BT") && { anchorLogprobs_BT: logprobsOf(model, reading) }),
      ...(needs.has("referenceLogprobs_BT") &&
        reference !== null && {
          referenceLogprobs_BT:
            reference === "base" ? withoutLora(model, () => logprobsOf(model)) : logprobsOf(reference),
        }),
      ...(values && { values_BT: values.values_BT, bootstrapValues_B: values.bootstrap_B }),
    };
  }

  /**
   * Rows of each update: whole trajectories, in an order drawn anew for every pass. Several ranks make as many updates as one
   * would, each with an even part of its own trajectories.
   */
  async #minibatches({ samples }: Grid, epoch: number): Promise<readonly (readonly number[])[]> {
    const { ranks, options } = this.#parts;
    const { minibatchTrajectories, seed } = options;
    const rowsOf = new Map<number, number[]>();
    for (const [row, { trajectory }] of samples.entries()) {
      const rows = rowsOf.get(trajectory);
      if (rows === undefined) rowsOf.set(trajectory, [row]);
      else rows.push(row);
    }
    const everyRow = [samples.map((_, row) => row)];
    if (minibatchTrajectories === 0) return everyRow;
    const numTrajectories = await this.#sumOf(rowsOf.size);
    if (minibatchTrajectories >= numTrajectories) return everyRow;
    const random = new Random(deriveSeed(seed, "minibatch", this.#state.numSteps, epoch));
    const order = random.shuffled([...rowsOf.keys()]);
    const count = Math.ceil(numTrajectories / minibatchTrajectories);
    const cut = (i: number) =>
      ranks === undefined ? i * minibatchTrajectories : Math.round((i * order.length) / count);
    return Array.from({ length: count }, (_, i) => order.slice(cut(i), cut(i + 1)).flatMap((key) => rowsOf.get(key)!));
  }

  /** What the schedule makes of the learning rate of an update, by its place among those of the step. */
  #factorAt({ index, count }: { readonly index: number; readonly count: number }): number {
    const { schedule, options } = this.#parts;
    const { numSteps, numUpdates } = this.#state;
    const planned = options.updatesPerStep;
    return schedule(planned === undefined ? numUpdates : numSteps * planned + (index * planned) / count);
  }

  async #update(
    grid: Grid,
    scored: ScoredBatch,
    rows: readonly number[],
    factor: number,
    { sums, reading }: { readonly sums: MetricSums; readonly reading: TrainerReading },
  ): Promise<void> {
    const { model, optimizer, critic, ranks, options } = this.#parts;
    const { numUpdates } = this.#state;
    applySchedule(optimizer, factor);
    optimizer.zeroGrad();
    critic?.optimizer.zeroGrad();
    const part = tensorScope(() => {
      if (rows.length === 0) return mergeDenominators([]);
      const { lossMask_BT, groupOf } = selectRows(scored, rows);
      return globalDenominators(lossMask_BT, groupOf);
    });
    const denominators = ranks === undefined ? part : mergeDenominators(await ranks.gather(part));
    for (const own of forwardParts(grid, rows, options.maxTokensPerMicrobatch)) {
      tensorScope(() => {
        const packed = packTokens(grid, own, model.embedding.device);
        const policy = measurePolicy(model, packed, options);
        reading.add(own, policy);
        const values = critic && measureValues(critic, packed, options.recompute);
        const scoredRows = selectRows(scored, own);
        const { loss, terms, metrics, correctionMetrics } = this.#parts.recipe.loss(
          {
            rows: scoredRows,
            policyLogprobs_BT: policy.logprobs_BT,
            entropies_BT: policy.entropies_BT,
            ...(values && { values_BT: values.values_BT }),
          },
          denominators,
        );
        loss.backward();
        const losses = { "train/loss": loss.detach(), ...prefixed("train/loss_", terms) };
        sums.add({ ...entropyOf(policy, scoredRows), ...metrics }, correctionMetrics, losses);
      });
    }
    await ranks?.reduceGradients();
    const isWarming = critic !== null && numUpdates < critic.warmupUpdates;
    tensorScope(() => {
      const norm = clipGradNorm(model.trainableParameters(), options.maxGradNorm);
      sums.addUpdate({ "train/grad_norm": norm }, optimizer.groups[0]?.lr ?? 0);
      if (!isWarming) optimizer.step();
      if (critic === null) return;
      const parameters = [...critic.model.trainableParameters(), ...critic.head.trainableParameters()];
      sums.addUpdate({ "train/critic_grad_norm": clipGradNorm(parameters, options.maxGradNorm) });
      applySchedule(critic.optimizer, factor);
      critic.optimizer.step();
    });
    optimizer.zeroGrad();
    critic?.optimizer.zeroGrad();
    this.#state = { ...this.#state, numUpdates: numUpdates + 1 };
  }

  /** Moves the recipe's controllers on by what was measured on all ranks; without a token to measure they stay as they are. */
  async #advance(metrics: Metrics, numRows: number, { denominators }: ScoredBatch): Promise<void> {
    const { recipe } = this.#parts;
    const { klReward, entropy } = this.#state.recipe;
    const measured = {
      ...(klReward && { referenceKl: await this.#meanOf(metrics["score/reference_kl"], numRows) }),
      ...(entropy && { entropy: await this.#meanOf(metrics["policy/entropy"], denominators.numTokens) }),
      numRows: await this.#sumOf(numRows),
    };
    const isMeasured = (values: typeof measured): values is Measured => !Object.values(values).includes(undefined);
    this.#state = {
      ...this.#state,
      numSteps: this.#state.numSteps + 1,
      recipe: isMeasured(measured) ? recipe.advance(this.#state.recipe, measured) : this.#state.recipe,
    };
  }

  /** The mean of a metric over the ranks that have it, by their counts; undefined where none has. */
  async #meanOf(value: number | undefined, count: number): Promise<number | undefined> {
    const weight = value === undefined ? 0 : count;
    const sum = await this.#sumOf((value ?? 0) * weight);
    const total = await this.#sumOf(weight);
    return total === 0 ? undefined : sum / total;
  }

  async #sumOf(value: number): Promise<number> {
    return this.#parts.ranks === undefined ? value : this.#parts.ranks.sum(value);
  }
}

/** Metrics of all microbatches of a step, on the device until they are read together. */
class MetricSums {
  #losses: LossMetrics = {};
  readonly #corrections: CorrectionMetrics[] = [];
  readonly #terms: Readonly<Record<string, Tensor>>[] = [];
  readonly #updates: Readonly<Record<string, Tensor>>[] = [];
  #numUpdates = 0;
  #lr = 0;

  add(losses: LossMetrics, corrections: CorrectionMetrics, terms: Readonly<Record<string, Tensor>>): void {
    const before = Object.values(this.#losses).flatMap(({ sum, count }) => [sum, count]);
    const joined = addMetrics([this.#losses, losses]);
    for (const { sum, count } of Object.values(joined)) {
      keep(sum);
      keep(count);
    }
    const after = new Set(Object.values(joined).flatMap(({ sum, count }) => [sum, count]));
    for (const old of before) if (!after.has(old)) old.dispose();
    this.#losses = joined;
    this.#corrections.push(keepAll(corrections));
    this.#terms.push(keepAll(terms));
  }

  addUpdate(values: Readonly<Record<string, Tensor>>, lr?: number): void {
    this.#updates.push(keepAll(values));
    if (lr === undefined) return;
    this.#numUpdates++;
    this.#lr = lr;
  }

  /** Reads everything and frees it. */
  read(): Metrics {
    const parts = this.#terms.map(readCorrectionMetrics);
    const updates = this.#updates.map(readCorrectionMetrics);
    const corrections = this.#corrections.map(readCorrectionMetrics);
    const losses = readMetrics(this.#losses);
    for (const record of [...this.#terms, ...this.#updates, ...this.#corrections])
      for (const value of Object.values(record)) value.dispose();
    for (const { sum, count } of Object.values(this.#losses)) {
      sum.dispose();
      count.dispose();
    }
    return {
      ...losses,
      ...meanOf(corrections, corrections.length),
      ...meanOf(updates, this.#numUpdates),
      // The shares of the microbatches of an update add up to its loss.
      ...meanOf(parts, this.#numUpdates),
      "train/lr": this.#lr,
    };
  }
}

function meanOf(records: readonly Readonly<Record<string, number>>[], divisor: number): Metrics {
  const sums: Record<string, number> = {};
  for (const record of records) {
    for (const [name, value] of Object.entries(record)) sums[name] = (sums[name] ?? 0) + value / divisor;
  }
  return sums;
}

function keepAll(values: Readonly<Record<string, Tensor>>): Readonly<Record<string, Tensor>> {
  for (const value of Object.values(values)) keep(value);
  return values;
}

function prefixed(prefix: string, values: Readonly<Record<string, Tensor>>): Readonly<Record<string, Tensor>> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [prefix + name, value]));
}

function tdErrorsOf({ returns_BT, oldValues_BT, lossMask_BT }: ScoredBatch): Pick<StepReport, "tdErrors"> {
  if (returns_BT === null || oldValues_BT === null) return {};
  return tensorScope(() => ({
    tdErrors: maskedMean(returns_BT.sub(oldValues_BT).abs(), lossMask_BT, 1).toFloat32Array(),
  }));
}

/** The weight of each row, unless all weigh the same. */
function weightsOf({ samples }: Grid, device: Device): Pick<TokenBatch, "rowWeights_B"> {
  const weights = samples.map(({ weight = 1 }) => weight);
  return weights.every((weight) => weight === 1) ? {} : { rowWeights_B: tensor(weights, { device }) };
}

/** How far the trainer's log-probs are from the sampler's: the health of the whole loop in one number. */
function samplerGap({ anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT }: TokenBatch): CorrectionMetrics {
  if (anchorLogprobs_BT === undefined) return {};
  const gap_BT = anchorLogprobs_BT.sub(samplerLogprobs_BT).abs().where(lossMask_BT, 0);
  return { "train/sampler_gap": maskedMean(gap_BT, lossMask_BT), "train/sampler_gap_max": gap_BT.max() };
}

/** Mean entropy at the loss tokens. Measured for recipes without an entropy bonus too, to see in every run whether the policy still explores. */
function entropyOf({ entropies_BT }: MeasuredPolicy, { lossMask_BT }: ScoredRows): LossMetrics {
  const { metrics } = entropyBonus({ entropies_BT: entropies_BT.detach(), lossMask_BT }, 0);
  return { "policy/entropy": metrics["policy/entropy"]! };
}

function stalenessOf({ versions, lossMask_BT }: TokenBatch): CorrectionMetrics {
  if (versions === undefined) return {};
  const age_BT = versions.versions_BT.neg().add(versions.current).to("float32").where(lossMask_BT, 0);
  return { "train/staleness": maskedMean(age_BT, lossMask_BT), "train/staleness_max": age_BT.max() };
}

function tensorsOf(scored: ScoredBatch): readonly Tensor[] {
  const { denominators: _, groupOf: __, metrics, entropyCoefficient: ___, ...tensors } = scored;
  return [...Object.values(tensors), ...Object.values(metrics)].filter((value) => value !== null);
}

function keepScored(scored: ScoredBatch): ScoredBatch {
  for (const value of tensorsOf(scored)) keep(value);
  return scored;
}

function disposeScored(scored: ScoredBatch): void {
  for (const value of new Set(tensorsOf(scored))) value.dispose();
}

function missingPart({ type }: Recipe, part: string): RerollError {
  return new RerollError("MISSING_PART", `Recipe ${type} with these options needs ${part}, and the trainer has none.`);
}

/**
 * Updates on given examples by an objective, and measurements of it.
 *
 * In: examples, which are only read. Out: metrics; a step has changed the weights. Totals are those of the whole batch, over all ranks, so
 * that the cut into microbatches and ranks changes nothing. Sequences are packed end to end and do not see each other.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { LossMetrics } from "../flow/batch-statistics.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { noGrad } from "../torch/autograd.ts";
import type { Parameter } from "../torch/nn/module.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { applySchedule, type Schedule } from "../torch/optim/schedule.ts";
import { tensorScope } from "../torch/scope.ts";
import { type ExampleGrid, exampleGrid, exampleParts } from "./example-grid.ts";
import { MetricSums } from "./metric-sums.ts";
import type { BatchTotals, Objective, ObjectivePass } from "./objectives/objective.ts";
import { alone } from "./strategy/alone.ts";
import type { Strategy } from "./strategy/strategy.ts";
import { packTokens } from "./token-rows.ts";
import type { StepReport } from "./token-trainer.ts";

interface ExampleTrainerParts {
  readonly model: CausalLm;
  readonly objective: Objective;
  /** All parameters that learn. */
  readonly trainable: readonly Parameter[];
  readonly optimizer: Optimizer;
  /** Factor on the learning rate, by the number of updates done. */
  readonly schedule: Schedule;
  /** How the work is shared where there are several ranks. Default: there is one. */
  readonly strategy?: Strategy;
  readonly options: {
    readonly maxTokensPerMicrobatch: number;
    readonly maxGradNorm: number;
    readonly recompute: boolean;
  };
}

/** The state that changes from step to step, apart from weights and optimizer. Plain data. */
export interface ExampleTrainerState {
  /** Updates that were made or skipped: the schedule goes by them. */
  readonly numUpdates: number;
  readonly numSkippedInRow: number;
}

/** What an objective measured of one example, by name. */
export type ExampleNumbers = Readonly<Record<string, number>>;

export class ExampleTrainer {
  readonly #parts: ExampleTrainerParts;
  readonly #strategy: Strategy;
  #state: ExampleTrainerState = { numUpdates: 0, numSkippedInRow: 0 };

  constructor(parts: ExampleTrainerParts) {
    this.#parts = parts;
    this.#strategy = parts.strategy ?? alone;
  }

  get state(): ExampleTrainerState {
    return this.#state;
  }

  /** Goes on from a saved state; weights and optimizer are restored by whoever holds them. */
  restore(state: ExampleTrainerState): void {
    this.#state = state;
  }

  /**
   * One update on these examples and those of other ranks. Skipped where the loss or its gradients are not finite: weights and optimizer
   * stay as they are, and the schedule moves on.
   */
  async step(examples: readonly TuningExample[]): Promise<StepReport> {
    const { model, objective, trainable, optimizer, schedule, options } = this.#parts;
    const strategy = this.#strategy;
    const { grid, meansGrid } = this.#grids(examples);
    const totals = await this.#total(grid, meansGrid);
    const sums = new MetricSums();
    applySchedule(optimizer, schedule(this.#state.numUpdates));
    optimizer.zeroGrad();
    this.#forEachPart(grid, model, (pass) => {
      const { loss, metrics } = objective.loss(pass, totals);
      strategy.backward(loss);
      sums.add(metrics, { "train/loss": loss.detach() });
    });
    await strategy.reduceGradients();
    const { isOwnFinite, factor } = tensorScope(() => {
      const { norm, factor } = strategy.boundGradients(trainable, options.maxGradNorm);
      const norms = { "train/grad_norm": norm };
      sums.addUpdate(norms);
      return { isOwnFinite: sums.isFinite(norms), factor };
    });
    // Ranks see the losses of their own examples; an update is made by all of them or by none.
    const isSound = await strategy.agree(isOwnFinite);
    if (isSound) optimizer.step(factor);
    factor?.dispose();
    sums.endUpdate(isSound ? "made" : "skipped", optimizer.groups[0]?.lr ?? 0);
    optimizer.zeroGrad();
    const numSkippedInRow = isSound ? 0 : this.#state.numSkippedInRow + 1;
    this.#state = { numUpdates: this.#state.numUpdates + 1, numSkippedInRow };
    const { "train/loss": loss, ...means } = await sums.read(this.#strategy);
    return {
      numUpdates: 1,
      numSkippedInRow,
      metrics: {
        ...(loss !== undefined && { "train/loss": loss, ...objective.derive?.({ ...means, loss }) }),
        ...means,
        "train/updates": 1,
        "experience/rows": totals.numExamples,
        "experience/tokens": totals.numAllTokens,
        "experience/loss_tokens": totals.numTokens,
      },
    };
  }

  /** The loss of these examples and those of other ranks, named `loss`, and the metrics of the objective. Changes nothing. */
  async evaluate(examples: readonly TuningExample[]): Promise<Metrics> {
    const { model, objective } = this.#parts;
    const { grid, meansGrid } = this.#grids(examples);
    const totals = await this.#total(grid, meansGrid);
    const sums = new MetricSums();
    noGrad(() =>
      this.#forEachPart(grid, model, (pass) => {
        const { loss, metrics } = objective.loss(pass, totals);
        sums.add(metrics, { loss: loss.detach() });
      }),
    );
    sums.endUpdate("made", 0);
    const { "train/lr": _lr, "train/skipped_updates": _skipped, ...means } = await sums.read(this.#strategy);
    return { ...means, ...objective.derive?.(means) };
  }

  /** What the objective measures of each example beforehand, by `model`. Empty records where it measures nothing. */
  measure(examples: readonly TuningExample[], model: CausalLm): readonly ExampleNumbers[] {
    const { measure } = this.#parts.objective;
    const found = examples.map((): Record<string, number> => ({}));
    if (measure === undefined) return found;
    noGrad(() =>
      this.#forEachPart(exampleGrid(examples), model, (pass, part) => {
        for (const [name, values_E] of Object.entries(measure(pass))) {
          const values = values_E.to("float64").toArray() as number[];
          part.forEach((place, i) => {
            found[place]![name] = values[i]!;
          });
        }
      }),
    );
    return found;
  }

  /** What the loss reads, and what the means of the batch are taken from. */
  #grids(examples: readonly TuningExample[]): { readonly grid: ExampleGrid; readonly meansGrid: ExampleGrid } {
    const { numLossSequences: count } = this.#parts.objective;
    const part = (start: number, end?: number) =>
      exampleGrid(examples.map((one) => ({ ...one, sequences: one.sequences.slice(start, end) })));
    const grid = part(0, count);
    return { grid, meansGrid: count === undefined ? grid : part(count) };
  }

  async #total(grid: ExampleGrid, meansGrid: ExampleGrid): Promise<BatchTotals & { readonly numAllTokens: number }> {
    const { model, objective } = this.#parts;
    const { batchMeans } = objective;
    const own: CountedBatch = { ...grid.counts, sums: {} };
    if (batchMeans !== undefined) {
      noGrad(() => this.#forEachPart(meansGrid, model, (pass) => addSums(own.sums, batchMeans(pass))));
    }
    const all = await this.#strategy.exchange(own);
    const sum = (pick: (one: CountedBatch) => number) => all.reduce((total, one) => total + pick(one), 0);
    const numTokens = sum((one) => one.numTokens);
    if (numTokens === 0) throw new RerollError("EMPTY_BATCH", "The batch has no loss tokens to learn from.");
    const names = [...new Set(all.flatMap(({ sums }) => Object.keys(sums)))];
    return {
      numExamples: sum((one) => one.numExamples),
      numTokens,
      numFirstTokens: sum((one) => one.numFirstTokens),
      numAllTokens: sum((one) => one.numAllTokens),
      means: Object.fromEntries(
        names.map((name) => [
          name,
          sum(({ sums }) => sums[name]?.sum ?? 0) / sum(({ sums }) => sums[name]?.count ?? 0),
        ]),
      ),
    };
  }

  /** Takes the examples through a model, part by part. `part` are the places of the examples in the batch. */
  #forEachPart(grid: ExampleGrid, model: CausalLm, use: (pass: ObjectivePass, part: readonly number[]) => void): void {
    const { maxTokensPerMicrobatch, recompute } = this.#parts.options;
    for (const part of exampleParts(grid, maxTokensPerMicrobatch)) {
      tensorScope(() => {
        const packed = packTokens(
          grid.rows,
          part.flatMap((place) => grid.rowsOf[place]!),
          model.embedding.device,
        );
        const hidden_SD = model.forward(packed.ids_S, packed.layout, { recompute });
        use({ examples: part.map((place) => grid.examples[place]!), packed, hidden_SD, model }, part);
      });
    }
  }
}

interface CountedBatch {
  readonly numExamples: number;
  readonly numTokens: number;
  readonly numFirstTokens: number;
  readonly numAllTokens: number;
  readonly sums: Record<string, { readonly sum: number; readonly count: number }>;
}

function addSums(sums: CountedBatch["sums"], metrics: LossMetrics): void {
  for (const [name, one] of Object.entries(metrics)) {
    const count = one.count.item();
    const sum = count > 0 ? one.sum.item() : 0;
    const known = sums[name] ?? { sum: 0, count: 0 };
    sums[name] = { sum: known.sum + sum, count: known.count + count };
  }
}

/**
 * A critic in a worker of its own: it says what rows are worth, and learns from the returns that the trainer computes.
 *
 * A step is `measure`, `teach`, then `update` and `apply` for each update, then `report`. Rows are cut into passes as the trainer cuts them, so that
 * its weights are those of a critic that learns beside the policy.
 */
import type { Recipe } from "../../algorithms/recipe-runner/recipe.ts";
import { invariant } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { ValueRows } from "../../flow/token-batch.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { applySchedule } from "../../torch/optim/schedule.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { measureAll, measureValues, valuesOf } from "../measure-rows.ts";
import { MetricSums } from "../metric-sums.ts";
import { gatherRows, passesOf, rowsByRank } from "../split-batch.ts";
import type { StrategyBuilder } from "../strategy/strategy.ts";
import { type Grid, gridOf, packTokens, type RowTokens } from "../token-rows.ts";
import type { TrainedCritic } from "../token-trainer.ts";
import { boundCritic, updateDenominators, updateShares } from "../update-shares.ts";
import type { CriticLearning, GridValues, ValueTargets } from "./other-roles.ts";
import type { RoleSource } from "./role-source.ts";

/** A step under way. */
interface CriticStep {
  readonly grid: Grid<RowTokens>;
  readonly shares: readonly (readonly number[])[];
  readonly sums: MetricSums;
  targets: ValueTargets | null;
}

export class CriticRole implements CriticLearning {
  readonly #critic: TrainedCritic;
  /** What the gradients of the update under way are still to be multiplied with. */
  #factor: Tensor | null = null;
  readonly #recipe: Recipe;
  readonly #strategy: StrategyBuilder;
  readonly #source: Pick<RoleSource, "device" | "training">;
  #step: CriticStep | null = null;

  constructor(
    critic: TrainedCritic,
    recipe: Recipe,
    strategy: StrategyBuilder,
    source: Pick<RoleSource, "device" | "training">,
  ) {
    this.#critic = critic;
    this.#recipe = recipe;
    this.#strategy = strategy;
    this.#source = source;
  }

  /** Begins a step: the values of its rows before it learns from them. */
  async measure(rows: readonly RowTokens[]): Promise<GridValues> {
    const { device, training } = this.#source;
    const strategy = this.#strategy;
    const grid = gridOf(rows);
    const shares = rowsByRank(grid, strategy.numRanks);
    this.#step = { grid, shares, sums: new MetricSums(), targets: null };
    const maxTokens = training.maxTokensPerMicrobatch;
    const { parts } = passesOf(strategy, grid, shares, { kind: "measure", maxTokens });
    const measure = () =>
      measureAll(grid, shares[strategy.rank]!, parts, device, (packed) => ({
        ...measureValues(this.#critic, packed),
      }));
    const own = parts.length === 0 ? null : noGrad(() => tensorScope(() => keep(measure())));
    const everyRow = rows.map((_, row) => row);
    const gather = async (values: Tensor | null, columns: readonly number[]) => {
      const all = await gatherRows(strategy, shares, everyRow, values, { columns, device });
      const array = all.toFloat32Array();
      all.dispose();
      return array;
    };
    return {
      values: await gather(own?.values_BT ?? null, [grid.numColumns]),
      bootstrap: await gather(own?.bootstrap_B ?? null, []),
    };
  }

  async teach(targets: ValueTargets): Promise<void> {
    this.#current().targets = targets;
  }

  async update(rows: readonly number[]): Promise<boolean> {
    const { grid, shares, sums } = this.#current();
    const { device, training } = this.#source;
    const strategy = this.#strategy;
    const { model, head, optimizer } = this.#critic;
    optimizer.zeroGrad();
    const denominators = updateDenominators(() => this.#rows(rows));
    const limits = { maxTokens: training.maxTokensPerMicrobatch };
    const { parts, numOwn } = updateShares(strategy, { grid, shares, rows, ...limits });
    for (const [i, part] of parts.entries()) {
      tensorScope(() => {
        const packed = packTokens(grid, part, device);
        const hidden_SD = model.forward(packed.ids_S, packed.layout, { recompute: training.recompute });
        const { values_BT } = valuesOf(head, packed, hidden_SD);
        if (i >= numOwn) return strategy.backward(values_BT.sum().mul(0));
        const { loss, metrics } = this.#recipe.valueLoss(this.#rows(part), values_BT, denominators);
        strategy.backward(loss);
        sums.add(metrics, { "train/loss_value": loss.detach() });
      });
    }
    await strategy.reduceGradients();
    const isOwnFinite = tensorScope(() => {
      const { norm, factor } = boundCritic(strategy, this.#critic, training.maxGradNorm);
      const norms = { "train/critic_grad_norm": norm };
      this.#factor = keep(factor);
      sums.addUpdate(norms);
      return sums.isFinite(norms);
    });
    return strategy.agree(isOwnFinite);
  }

  async apply(outcome: "made" | "skipped", factor: number): Promise<void> {
    const { optimizer } = this.#critic;
    if (outcome === "made") {
      applySchedule(optimizer, factor);
      optimizer.step(this.#factor);
    }
    this.#factor?.dispose();
    this.#factor = null;
    this.#current().sums.endUpdate(outcome, optimizer.groups[0]?.lr ?? 0);
    optimizer.zeroGrad();
  }

  async report(): Promise<Metrics> {
    const metrics = await this.#current().sums.read(this.#strategy);
    this.#step = null;
    return metrics;
  }

  #current(): CriticStep {
    invariant(this.#step !== null, "a critic was asked to learn before it measured");
    return this.#step;
  }

  /** These rows with their targets, on the device. The caller frees them. */
  #rows(rows: readonly number[]): ValueRows {
    const { grid, targets } = this.#current();
    invariant(targets !== null, "a critic was asked to learn before it was taught");
    const { device } = this.#source;
    const cells = (all: Float32Array) => {
      const picked = new Float32Array(rows.length * grid.numColumns);
      for (const [i, row] of rows.entries())
        picked.set(all.subarray(row * grid.numColumns, (row + 1) * grid.numColumns), i * grid.numColumns);
      return tensor(picked, [rows.length, grid.numColumns], { device });
    };
    const { returns, oldValues, lossMask, rowWeights, groupOf, trajectoryOf } = targets;
    return {
      returns_BT: cells(returns),
      oldValues_BT: cells(oldValues),
      lossMask_BT: cells(lossMask).ne(0),
      rowWeights_B:
        rowWeights &&
        tensor(
          Float32Array.from(rows, (row) => rowWeights[row]!),
          [rows.length],
          { device },
        ),
      groupOf: rows.map((row) => groupOf[row]!),
      trajectoryOf: rows.map((row) => trajectoryOf[row]!),
    };
  }
}

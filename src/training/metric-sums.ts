/** Metrics of all microbatches and updates of a step, on the device until they are read together. */
import { readCorrectionMetrics } from "../algorithms/corrections/correction-metrics.ts";
import { addMetrics } from "../algorithms/losses/loss-metrics.ts";
import type { CorrectionMetrics, LossMetrics } from "../flow/batch-statistics.ts";
import type { Metrics } from "../flow/metrics.ts";
import { keep } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { TrainerRanks } from "./trainer-ranks.ts";

export class MetricSums {
  #losses: LossMetrics = {};
  readonly #terms: CorrectionMetrics[] = [];
  readonly #updates: CorrectionMetrics[] = [];
  #numUpdates = 0;
  #lr = 0;

  /** Of a microbatch: means that are not divided yet, and its shares of the loss. */
  add(losses: LossMetrics, terms: Readonly<Record<string, Tensor>>): void {
    const before = Object.values(this.#losses).flatMap(({ sum, count }) => [sum, count]);
    const joined = addMetrics([this.#losses, losses]);
    for (const { sum, count } of Object.values(joined)) {
      keep(sum);
      keep(count);
    }
    const after = new Set(Object.values(joined).flatMap(({ sum, count }) => [sum, count]));
    for (const old of before) if (!after.has(old)) old.dispose();
    this.#losses = joined;
    this.#terms.push(keepAll(terms));
  }

  /** Of a whole update, equal on all ranks. */
  addUpdate(values: CorrectionMetrics, lr?: number): void {
    this.#updates.push(keepAll(values));
    if (lr === undefined) return;
    this.#numUpdates++;
    this.#lr = lr;
  }

  /** Reads everything and frees it. What was measured on other ranks is added. */
  async read(ranks?: TrainerRanks): Promise<Metrics> {
    const losses = readCorrectionMetrics(
      Object.fromEntries(
        Object.entries(this.#losses).flatMap(([name, { sum, count }]) => [
          [`sum ${name}`, sum],
          [`count ${name}`, count],
        ]),
      ),
    );
    // The shares of the microbatches of an update add up to its loss.
    const terms = addUp(this.#terms.map(readCorrectionMetrics), this.#numUpdates);
    const own = { losses, terms, names: Object.keys(this.#losses) };
    const updates = addUp(this.#updates.map(readCorrectionMetrics), this.#numUpdates);
    this.#dispose();
    const all = ranks === undefined ? [own] : await ranks.exchange(own);
    const total = addUp(all.map((one) => one.losses));
    const names = [...new Set(all.flatMap((one) => one.names))].filter((name) => total[`count ${name}`]! > 0);
    return {
      ...Object.fromEntries(names.map((name) => [name, total[`sum ${name}`]! / total[`count ${name}`]!])),
      ...updates,
      ...addUp(all.map((one) => one.terms)),
      "train/lr": this.#lr,
    };
  }

  #dispose(): void {
    for (const record of [...this.#terms, ...this.#updates]) for (const value of Object.values(record)) value.dispose();
    for (const { sum, count } of Object.values(this.#losses)) {
      sum.dispose();
      count.dispose();
    }
  }
}

function addUp(records: readonly Metrics[], divisor = 1): Metrics {
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

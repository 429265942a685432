/**
 * Metrics of all microbatches and updates of a step, on the device until they are read together.
 *
 * Those of an update wait until it is known whether the update was made: one that was skipped is counted, and has no other say.
 */
import { readCorrectionMetrics } from "../algorithms/corrections/correction-metrics.ts";
import { addMetrics } from "../algorithms/losses/loss-metrics.ts";
import type { CorrectionMetrics, LossMetrics } from "../flow/batch-statistics.ts";
import type { Metrics } from "../flow/metrics.ts";
import { stack } from "../torch/create.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { Strategy } from "./strategy/strategy.ts";

/** What one microbatch gave: means that are not divided yet, and its shares of the loss. */
interface Microbatch {
  readonly losses: LossMetrics;
  readonly terms: CorrectionMetrics;
}

export class MetricSums {
  #losses: LossMetrics = {};
  readonly #terms: CorrectionMetrics[] = [];
  readonly #updates: CorrectionMetrics[] = [];
  /** Of the update under way. */
  #microbatches: Microbatch[] = [];
  #values: CorrectionMetrics[] = [];
  #numMade = 0;
  #numSkipped = 0;
  #lr = 0;

  /** Of a microbatch: means that are not divided yet, and its shares of the loss. */
  add(losses: LossMetrics, terms: CorrectionMetrics): void {
    for (const { sum, count } of Object.values(losses)) keepAll({ sum, count });
    this.#microbatches.push({ losses, terms: keepAll(terms) });
  }

  /** Of a whole update, equal on all ranks. */
  addUpdate(values: CorrectionMetrics): void {
    this.#values.push(keepAll(values));
  }

  /** Whether these norms, and the shares of the loss of the update under way, are all finite. Waits for the device. */
  isFinite(norms: CorrectionMetrics): boolean {
    const seen = [...this.#microbatches.map(({ terms }) => terms), norms].flatMap((one) => Object.values(one));
    return (
      tensorScope(() =>
        stack(seen.map((value) => value.to("float32")))
          .isFinite()
          .all()
          .item(),
      ) === 1
    );
  }

  /** Ends the update under way. The metrics of one that was skipped are dropped. */
  endUpdate(outcome: "made" | "skipped", lr: number): void {
    this.#lr = lr;
    if (outcome === "made") {
      this.#numMade++;
      for (const microbatch of this.#microbatches) this.#join(microbatch);
      this.#updates.push(...this.#values);
    } else {
      this.#numSkipped++;
      for (const { losses, terms } of this.#microbatches) disposeAll([...tensorsOf(losses), ...Object.values(terms)]);
      disposeAll(this.#values.flatMap((values) => Object.values(values)));
    }
    this.#microbatches = [];
    this.#values = [];
  }

  /** Reads everything and frees it. What was measured on other ranks is added. */
  async read(strategy: Pick<Strategy, "exchange">): Promise<Metrics> {
    const losses = readCorrectionMetrics(
      Object.fromEntries(
        Object.entries(this.#losses).flatMap(([name, { sum, count }]) => [
          [`sum ${name}`, sum],
          [`count ${name}`, count],
        ]),
      ),
    );
    // The shares of the microbatches of an update add up to its loss.
    const terms = addUp(this.#terms.map(readCorrectionMetrics), this.#numMade);
    const own = { losses, terms, names: Object.keys(this.#losses) };
    const updates = addUp(this.#updates.map(readCorrectionMetrics), this.#numMade);
    this.#dispose();
    const all = await strategy.exchange(own);
    const total = addUp(all.map((one) => one.losses));
    const names = [...new Set(all.flatMap((one) => one.names))].filter((name) => total[`count ${name}`]! > 0);
    return {
      ...Object.fromEntries(names.map((name) => [name, total[`sum ${name}`]! / total[`count ${name}`]!])),
      ...updates,
      ...addUp(all.map((one) => one.terms)),
      "train/lr": this.#lr,
      "train/skipped_updates": this.#numSkipped,
    };
  }

  #join({ losses, terms }: Microbatch): void {
    const before = new Set([...tensorsOf(this.#losses), ...tensorsOf(losses)]);
    this.#losses = tensorScope(() => keep(addMetrics([this.#losses, losses])));
    const after = new Set(tensorsOf(this.#losses));
    disposeAll([...before].filter((old) => !after.has(old)));
    this.#terms.push(terms);
  }

  #dispose(): void {
    disposeAll([...this.#terms, ...this.#updates].flatMap((record) => Object.values(record)));
    disposeAll(tensorsOf(this.#losses));
  }
}

function addUp(records: readonly Metrics[], divisor = 1): Metrics {
  const sums: Record<string, number> = {};
  for (const record of records) {
    for (const [name, value] of Object.entries(record)) sums[name] = (sums[name] ?? 0) + value / divisor;
  }
  return sums;
}

function tensorsOf(losses: LossMetrics): readonly Tensor[] {
  return Object.values(losses).flatMap(({ sum, count }) => [sum, count]);
}

function keepAll(values: CorrectionMetrics): CorrectionMetrics {
  for (const value of Object.values(values)) keep(value);
  return values;
}

function disposeAll(tensors: readonly Tensor[]): void {
  for (const tensor of new Set(tensors)) tensor.dispose();
}

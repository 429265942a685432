/**
 * One trainer out of several: each rank is a thread with the whole model, on a GPU of its own where there are GPUs, and trains on its
 * share of every batch. What is divided by is counted over all ranks, so the update is that of one trainer with the whole batch.
 *
 * Rank 0 speaks for all: its weights are published and saved. A rank that fails takes the others with it.
 */
import type { Metrics } from "../flow/metrics.ts";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import { openStore } from "../torch/distributed/rendezvous.ts";
import type { Tensor } from "../torch/tensor.ts";
import { placesByRank, shareOf } from "./split-batch.ts";
import { startThreadedTrainer, type ThreadedTrainer } from "./threaded-trainer.ts";
import type { StepOptions, StepReport } from "./token-trainer.ts";
import type { Trainer } from "./trainer.ts";
import type { TrainerHostSource } from "./trainer-host.ts";
import type { SampleNumbers } from "./trainer-reading.ts";

/** A trainer in a thread, or one in several. */
export async function startTrainer(host: TrainerHostSource, numRanks: number): Promise<Trainer> {
  if (numRanks === 1) return startThreadedTrainer(host);
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const stop = new AbortController();
  const starts = Array.from({ length: numRanks }, (_, rank) => {
    const { source } = host;
    const device = source.device.startsWith("cuda") ? `cuda:${rank}` : source.device;
    const own = { ...source, device, rank: { rank, numRanks, port: store.port! } };
    return startThreadedTrainer({ ...host, source: own }, stop.signal);
  });
  try {
    return new RankedTrainer(await Promise.all(starts));
  } catch (cause) {
    // The others wait for the one that failed, and would do so for minutes.
    stop.abort();
    await Promise.allSettled(starts);
    throw cause;
  } finally {
    store.dispose();
  }
}

class RankedTrainer implements Trainer {
  readonly #ranks: readonly ThreadedTrainer[];
  #isBroken = false;

  constructor(ranks: readonly ThreadedTrainer[]) {
    this.#ranks = ranks;
  }

  async step({ samples, version }: SampleBatch, { numbersOf = [] }: StepOptions = {}): Promise<StepReport> {
    const shares = placesByRank(samples, this.#ranks.length);
    const reports = await this.#onAll((rank, i) => {
      const places = shares[i]!;
      const own = places.flatMap((place, at) => (numbersOf.includes(place) ? [at] : []));
      return rank.step({ samples: shareOf(samples, places), version }, { numbersOf: own });
    });
    const numbers = new Map<number, SampleNumbers>();
    const tdErrors = new Float32Array(samples.length);
    for (const [i, report] of reports.entries()) {
      for (const [at, values] of report.numbers ?? []) numbers.set(shares[i]![at]!, values);
      for (const [at, place] of shares[i]!.entries()) tdErrors[place] = report.tdErrors?.[at] ?? 0;
    }
    const hasErrors = reports[0]!.tdErrors !== undefined;
    const own = shares.map((places) => places.map((place) => samples[place]!));
    return {
      ...joinReports(reports, own),
      ...(numbersOf.length > 0 && { numbers }),
      ...(hasErrors && { tdErrors }),
    };
  }

  async stepSupervised(samples: readonly TokenSample[]): Promise<StepReport> {
    const { length } = this.#ranks;
    const reports = await this.#onAll((rank, i) => {
      const places = samples.flatMap((_, place) => (place % length === i ? [place] : []));
      return rank.stepSupervised(shareOf(samples, places));
    });
    // Supervised trainers add up among themselves what they measure.
    return reports[0]!;
  }

  withWeights<Result>(use: (weights: ReadonlyMap<string, Tensor>) => Promise<Result>): Promise<Result> {
    return this.#ranks[0]!.withWeights(use);
  }

  saveModel(folder: string): Promise<void> {
    return this.#ranks[0]!.saveModel(folder);
  }

  saveMerged(folder: string): Promise<void> {
    return this.#ranks[0]!.saveMerged(folder);
  }

  saveState(folder: string): Promise<void> {
    return this.#ranks[0]!.saveState(folder);
  }

  async loadState(folder: string): Promise<void> {
    await this.#onAll((rank) => rank.loadState(folder));
  }

  async close(): Promise<void> {
    await Promise.all(this.#ranks.map((rank) => (this.#isBroken ? rank.abandon() : rank.close())));
  }

  /** The others of a rank that fails wait for it in a collective: they are ended rather than waited for. */
  async #onAll<Result>(call: (rank: ThreadedTrainer, index: number) => Promise<Result>): Promise<readonly Result[]> {
    try {
      return await Promise.all(this.#ranks.map(call));
    } catch (cause) {
      this.#isBroken = true;
      await Promise.all(this.#ranks.map((rank) => rank.abandon()));
      throw cause;
    }
  }
}

/** Means over samples; all others are over loss tokens. */
const overSamples: ReadonlySet<string> = new Set(["score/reward", "score/shaped_reward", "score/reference_kl"]);

/**
 * Each rank measured its share. The shares of the loss add up to the loss; of everything else it is the extreme of extremes, or the
 * mean over ranks by how much each has, so that a rank without a sample has no say. Spreads are those inside of the ranks.
 */
function joinReports(reports: readonly StepReport[], shares: readonly (readonly TokenSample[])[]): StepReport {
  const ranks = reports.flatMap(({ metrics }, rank) => {
    const samples = shares[rank]!;
    return samples.length === 0 ? [] : [{ metrics, numSamples: samples.length, numTokens: lossTokens(samples) }];
  });
  const metrics: Record<string, number> = {};
  for (const name of new Set(ranks.flatMap((rank) => Object.keys(rank.metrics)))) {
    const known = ranks.filter((rank) => rank.metrics[name] !== undefined);
    const values = known.map((rank) => rank.metrics[name]!);
    if (/^train\/loss(_|$)/.test(name)) metrics[name] = sumOf(values);
    else if (/max$/.test(name)) metrics[name] = Math.max(...values);
    else if (/min$/.test(name)) metrics[name] = Math.min(...values);
    else {
      const weights = known.map((rank) => (overSamples.has(name) ? rank.numSamples : Math.max(1, rank.numTokens)));
      metrics[name] = sumOf(values.map((value, i) => value * weights[i]!)) / sumOf(weights);
    }
  }
  return { numUpdates: reports[0]!.numUpdates, metrics: metrics satisfies Metrics };
}

function lossTokens(samples: readonly TokenSample[]): number {
  return sumOf(samples.map(({ lossMask }) => lossMask.reduce((total, one) => total + one, 0)));
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

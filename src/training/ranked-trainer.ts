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
  const ranks = await startTogether(
    Array.from({ length: numRanks }, (_, rank) => {
      const { source } = host;
      const device = source.device.startsWith("cuda") ? `cuda:${rank}` : source.device;
      return startThreadedTrainer({
        ...host,
        source: { ...source, device, rank: { rank, numRanks, port: store.port! } },
      });
    }),
  );
  store.dispose();
  return new RankedTrainer(ranks);
}

/** All of them, or the reason of the first that failed, with the others ended. */
async function startTogether(starts: readonly Promise<ThreadedTrainer>[]): Promise<readonly ThreadedTrainer[]> {
  try {
    return await Promise.all(starts);
  } catch (cause) {
    for (const start of starts) start.then((rank) => rank.abandon()).catch(() => undefined);
    throw cause;
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
    return { ...joinReports(reports), ...(numbersOf.length > 0 && { numbers }), ...(hasErrors && { tdErrors }) };
  }

  async stepSupervised(samples: readonly TokenSample[]): Promise<StepReport> {
    const { length } = this.#ranks;
    const reports = await this.#onAll((rank, i) => {
      const places = samples.flatMap((_, place) => (place % length === i ? [place] : []));
      return rank.stepSupervised(shareOf(samples, places));
    });
    return joinReports(reports);
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

/** Each rank measured its share: the mean over ranks, and the extreme of extremes. */
function joinReports(reports: readonly StepReport[]): StepReport {
  const names = new Set(reports.flatMap(({ metrics }) => Object.keys(metrics)));
  const metrics: Record<string, number> = {};
  for (const name of names) {
    const values = reports.flatMap(({ metrics: own }) => own[name] ?? []);
    if (/max$/.test(name)) metrics[name] = Math.max(...values);
    else if (/min$/.test(name)) metrics[name] = Math.min(...values);
    else metrics[name] = values.reduce((sum, value) => sum + value, 0) / values.length;
  }
  return { numUpdates: reports[0]!.numUpdates, metrics: metrics satisfies Metrics };
}

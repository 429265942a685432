/**
 * One trainer out of several: each rank is a thread with the whole model, on a GPU of its own where there are GPUs. Every rank gets the
 * whole batch, measures and trains on its share of the rows, and scores all of them: the update is that of one trainer.
 *
 * Rank 0 speaks for all: its weights are published and saved. A rank that fails takes the others with it.
 */
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import { openStore } from "../torch/distributed/rendezvous.ts";
import type { Tensor } from "../torch/tensor.ts";
import { startThreadedTrainer, type ThreadedTrainer } from "./threaded-trainer.ts";
import type { StepOptions, StepReport } from "./token-trainer.ts";
import type { Trainer } from "./trainer.ts";
import type { TrainerHostSource } from "./trainer-host.ts";

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

  async step(batch: SampleBatch, options: StepOptions = {}): Promise<StepReport> {
    const reports = await this.#onAll((rank) => rank.step(batch, options));
    // All ranks know the metrics of the whole step; of single samples each knows those that it trained on.
    const { numbers: _, ...whole } = reports[0]!;
    const numbers = new Map(reports.flatMap((report) => [...(report.numbers ?? [])]));
    return { ...whole, ...(numbers.size > 0 && { numbers }) };
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

/** The samples at these places, or one without loss tokens where there are none: the rank has nothing to say, but must take part. */
function shareOf(samples: readonly TokenSample[], places: readonly number[]): readonly TokenSample[] {
  if (places.length > 0) return places.map((place) => samples[place]!);
  return samples.slice(0, 1).map((sample) => ({ ...sample, lossMask: new Uint8Array(sample.lossMask.length) }));
}

/**
 * One trainer out of several: each rank is a thread with the whole model, on a GPU of its own where there are GPUs. Every rank gets the
 * whole batch, measures and trains on its share of the rows, and scores all of them: the update is that of one trainer.
 *
 * Rank 0 speaks for all: its weights are published and saved. A rank that fails takes the others with it.
 */
import type { TokenSample } from "../flow/token-sample.ts";
import { openStore } from "../torch/distributed/rendezvous.ts";
import type { Remote } from "../workers/remote.ts";
import type { SupervisedSource } from "./supervised-host.ts";
import { startSupervisedThread, startTrainerThread, trainerLost } from "./threaded-trainer.ts";
import type { SupervisedTraining, Trainer } from "./trainer.ts";
import type { RankSource, TrainerSource } from "./trainer-source.ts";

/** Starts the ranks and brings them together. A rank that fails to start ends the others. */
export async function startRankedTrainer(source: TrainerSource, numRanks: number): Promise<Trainer> {
  return joinRanks(await startRanks(source, numRanks, startTrainerThread));
}

/** The same for supervised training. */
export async function startRankedSupervised(source: SupervisedSource, numRanks: number): Promise<SupervisedTraining> {
  return joinSupervised(await startRanks(source, numRanks, startSupervisedThread));
}

async function startRanks<Source extends { readonly device: string; readonly rank?: RankSource }, Host>(
  source: Source,
  numRanks: number,
  start: (source: Source, signal: AbortSignal) => Promise<Host>,
): Promise<readonly Host[]> {
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const stop = new AbortController();
  const starts = Array.from({ length: numRanks }, (_, rank) => {
    const device = source.device.startsWith("cuda") ? `cuda:${rank}` : source.device;
    return start({ ...source, device, rank: { rank, numRanks, port: store.port! } }, stop.signal);
  });
  try {
    return await Promise.all(starts);
  } catch (cause) {
    // The others wait for the one that failed, and would do so for minutes.
    stop.abort();
    await Promise.allSettled(starts);
    throw cause;
  } finally {
    store.dispose();
  }
}

/** One trainer out of ranks that have met: what each method asks of which rank. */
function joinRanks(ranks: readonly Remote<Trainer>[]): Trainer {
  // All ranks have the same weights and the same state, so the first speaks for all of them.
  const { withWeights, saveModel, saveMerged, saveState } = ranks[0]!.ask;
  return {
    withWeights,
    saveModel,
    saveMerged,
    saveState,
    step: async (batch, options) => {
      const reports = await onAll(ranks, (rank) => rank.step(batch, options));
      // All ranks know the metrics of the whole step; of single samples each knows those that it trained on.
      const { numbers: _, ...whole } = reports[0]!;
      const numbers = new Map(reports.flatMap((report) => [...(report.numbers ?? [])]));
      return { ...whole, ...(numbers.size > 0 && { numbers }) };
    },
    loadState: async (folder) => void (await onAll(ranks, (rank) => rank.loadState(folder))),
    close: async () => void (await Promise.all(ranks.map((rank) => rank.close()))),
  };
}

function joinSupervised(ranks: readonly Remote<SupervisedTraining>[]): SupervisedTraining {
  const { saveModel, saveMerged, saveState } = ranks[0]!.ask;
  return {
    saveModel,
    saveMerged,
    saveState,
    loadState: async (folder) => void (await onAll(ranks, (rank) => rank.loadState(folder))),
    step: async (samples) => {
      const reports = await onAll(ranks, (rank, i) => {
        const places = samples.flatMap((_, place) => (place % ranks.length === i ? [place] : []));
        return rank.step(shareOf(samples, places));
      });
      // The ranks add up among themselves what they measure.
      return reports[0]!;
    },
    close: async () => void (await Promise.all(ranks.map((rank) => rank.close()))),
  };
}

/** The others of a rank that fails wait for it in a collective: they are ended rather than waited for. */
async function onAll<Host extends object, Result>(
  ranks: readonly Remote<Host>[],
  call: (rank: Remote<Host>["ask"], index: number) => Promise<Result>,
): Promise<readonly Result[]> {
  try {
    return await Promise.all(ranks.map((rank, i) => call(rank.ask, i)));
  } catch (cause) {
    await Promise.all(ranks.map((rank) => rank.end(trainerLost("was abandoned"))));
    throw cause;
  }
}

/** The samples at these places, or one without loss tokens where there are none: the rank has nothing to say, but must take part. */
function shareOf(samples: readonly TokenSample[], places: readonly number[]): readonly TokenSample[] {
  if (places.length > 0) return places.map((place) => samples[place]!);
  return samples.slice(0, 1).map((sample) => ({ ...sample, lossMask: new Uint8Array(sample.lossMask.length) }));
}

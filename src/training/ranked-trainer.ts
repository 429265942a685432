/**
 * One trainer out of several: each rank is a thread with the whole model, on a GPU of its own where there are GPUs. Every rank gets the
 * whole batch, measures and trains on its share of the rows, and scores all of them: the update is that of one trainer.
 *
 * Rank 0 speaks for all: its weights are published and saved. A rank that fails takes the others with it.
 */
import type { TuningExample } from "../flow/tuning-example.ts";
import { openStore } from "../torch/distributed/rendezvous.ts";
import type { Remote } from "../workers/remote.ts";
import { startTrainerThread, startTuningThread, trainerLost } from "./threaded-trainer.ts";
import type { Trainer, TuningTrainer } from "./trainer.ts";
import type { RankSource, TrainerSource } from "./trainer-source.ts";
import type { TuningSource } from "./tuning-host.ts";

/** Starts the ranks and brings them together. A rank that fails to start ends the others. */
export async function startRankedTrainer(source: TrainerSource, numRanks: number): Promise<Trainer> {
  return joinRanks(await startRanks(source, numRanks, startTrainerThread));
}

/** The same for training on examples. */
export async function startRankedTuning(source: TuningSource, numRanks: number): Promise<TuningTrainer> {
  return joinTuning(await startRanks(source, numRanks, startTuningThread));
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

function joinTuning(ranks: readonly Remote<TuningTrainer>[]): TuningTrainer {
  const { saveModel, saveMerged, saveState } = ranks[0]!.ask;
  return {
    saveModel,
    saveMerged,
    saveState,
    // The ranks add up among themselves what steps and evaluations measure.
    step: async (examples) => {
      const shares = shareExamples(examples, ranks.length);
      return (await onAll(ranks, (rank, i) => rank.step(pick(examples, shares[i]!))))[0]!;
    },
    evaluate: async (examples) => {
      const shares = shareExamples(examples, ranks.length);
      return (await onAll(ranks, (rank, i) => rank.evaluate(pick(examples, shares[i]!))))[0]!;
    },
    measure: async (examples) => {
      const shares = shareExamples(examples, ranks.length);
      const measured = await onAll(ranks, (rank, i) => rank.measure(pick(examples, shares[i]!)));
      const placed = measured.flatMap((numbers, i) => numbers.map((one, k) => [shares[i]![k]!, one] as const));
      return placed.sort(([a], [b]) => a - b).map(([, one]) => one);
    },
    loadState: async (folder) => void (await onAll(ranks, (rank) => rank.loadState(folder))),
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

/** The places of each rank's examples: dealt out from the longest to the shortest, so that all have about equally many tokens. */
function shareExamples(examples: readonly TuningExample[], numRanks: number): readonly (readonly number[])[] {
  const lengths = examples.map(({ sequences }) => sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
  const byLength = lengths.map((_, place) => place).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  return Array.from({ length: numRanks }, (_, rank) => byLength.filter((_, i) => i % numRanks === rank));
}

function pick<Value>(values: readonly Value[], places: readonly number[]): readonly Value[] {
  return places.map((place) => values[place]!);
}

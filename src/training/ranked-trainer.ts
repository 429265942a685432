/**
 * One trainer out of several: each rank is a thread with the whole model, on a GPU of its own where there are GPUs, and trains on its
 * share of every batch. What is divided by is counted over all ranks, so the update is that of one trainer with the whole batch.
 *
 * Rank 0 speaks for all: its weights are published and saved. A rank that fails takes the others with it.
 */
import type { Metrics } from "../flow/metrics.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import { openStore } from "../torch/distributed/rendezvous.ts";
import type { Remote } from "../workers/remote.ts";
import { placesByRank, shareOf } from "./split-batch.ts";
import { startTrainerThread, trainerLost } from "./threaded-trainer.ts";
import type { StepReport } from "./token-trainer.ts";
import type { Trainer } from "./trainer.ts";
import type { TrainerHostSource } from "./trainer-host.ts";
import type { SampleNumbers } from "./trainer-reading.ts";

/** Starts the ranks and brings them together. A rank that fails to start ends the others. */
export async function startRankedTrainer(host: TrainerHostSource, numRanks: number): Promise<Trainer> {
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const stop = new AbortController();
  const starts = Array.from({ length: numRanks }, (_, rank) => {
    const { source } = host;
    const device = source.device.startsWith("cuda") ? `cuda:${rank}` : source.device;
    const own = { ...source, device, rank: { rank, numRanks, port: store.port! } };
    return startTrainerThread({ ...host, source: own }, stop.signal);
  });
  try {
    return joinRanks(await Promise.all(starts));
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

  /** The others of a rank that fails wait for it in a collective: they are ended rather than waited for. */
  async function onAll<Result>(call: (rank: Trainer, index: number) => Promise<Result>): Promise<readonly Result[]> {
    try {
      return await Promise.all(ranks.map((rank, i) => call(rank.ask, i)));
    } catch (cause) {
      await Promise.all(ranks.map((rank) => rank.end(trainerLost("was abandoned"))));
      throw cause;
    }
  }

  return {
    withWeights,
    saveModel,
    saveMerged,
    saveState,
    step: async ({ samples, version }, { numbersOf = [] } = {}) => {
      const shares = placesByRank(samples, ranks.length);
      const reports = await onAll((rank, i) => {
        const places = shares[i]!;
        const own = places.flatMap((place, at) => (numbersOf.includes(place) ? [at] : []));
        return rank.step({ samples: shareOf(samples, places), version }, { numbersOf: own });
      });
      return joinSteps(reports, shares, samples, numbersOf.length > 0);
    },
    stepSupervised: async (samples) => {
      const reports = await onAll((rank, i) => {
        const places = samples.flatMap((_, place) => (place % ranks.length === i ? [place] : []));
        return rank.stepSupervised(shareOf(samples, places));
      });
      // Supervised trainers add up among themselves what they measure.
      return reports[0]!;
    },
    loadState: async (folder) => void (await onAll((rank) => rank.loadState(folder))),
    close: async () => void (await Promise.all(ranks.map((rank) => rank.close()))),
  };
}

/** The report of one step on all samples, with what each rank says of its own under their places in the whole batch. */
function joinSteps(
  reports: readonly StepReport[],
  shares: readonly (readonly number[])[],
  samples: readonly TokenSample[],
  hasNumbers: boolean,
): StepReport {
  const numbers = new Map<number, SampleNumbers>();
  const tdErrors = new Float32Array(samples.length);
  for (const [i, report] of reports.entries()) {
    for (const [at, values] of report.numbers ?? []) numbers.set(shares[i]![at]!, values);
    for (const [at, place] of shares[i]!.entries()) tdErrors[place] = report.tdErrors?.[at] ?? 0;
  }
  const own = shares.map((places) => places.map((place) => samples[place]!));
  return {
    ...joinReports(reports, own),
    ...(hasNumbers && { numbers }),
    ...(reports[0]!.tdErrors !== undefined && { tdErrors }),
  };
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

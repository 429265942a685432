/**
 * One trainer out of several, in threads, processes or on other machines, on a GPU each where there are GPUs. Every rank gets the whole batch, measures and
 * trains on its share of the rows, and scores all of them: the update is that of one trainer.
 *
 * Rank 0 speaks for all. It is a thread of this process, so that its weights are lent without a copy. A rank that fails takes the others with it.
 */
import { setTimeout } from "node:timers/promises";
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import { openStore, type Store } from "../torch/distributed/rendezvous.ts";
import { oneWay } from "../workers/luggage.ts";
import type { Remote } from "../workers/remote.ts";
import type { Start } from "../workers/start.ts";
import { startInProcess } from "../workers/start-in-process.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import type { RankSource } from "./strategy/mesh.ts";
import type { StrategyOptions } from "./strategy/strategy-options.ts";
import { startTrainerIn, startTuningIn, trainerLost } from "./threaded-trainer.ts";
import type { StepOptions } from "./token-trainer.ts";
import type { Trainer, TuningTrainer } from "./trainer.ts";
import type { TrainerSource } from "./trainer-source.ts";
import type { TuningSource } from "./tuning-host.ts";

/** A machine that a rank runs on. */
interface RankPlace {
  readonly start: Start;
  readonly device: string;
  /** Where the other ranks reach it. */
  readonly address: string;
  readonly numCores: number;
}

/** The machines of all ranks but the first, and where they reach this one. */
export interface RankPlaces {
  readonly address: string;
  readonly others: readonly RankPlace[];
}

/** Starts the ranks and brings them together. A rank that fails to start ends the others. */
export async function startRankedTrainer(
  source: TrainerSource,
  numRanks: number,
  places?: RankPlaces,
): Promise<Trainer> {
  return joinRanks(await startRanks(startersOf(source, numRanks, places), startTrainerIn, places?.address));
}

/** The same for training on examples. */
export async function startRankedTuning(
  source: TuningSource,
  numRanks: number,
  places?: RankPlaces,
): Promise<TuningTrainer> {
  return joinTuning(await startRanks(startersOf(source, numRanks, places), startTuningIn, places?.address));
}

/** What ranks of any kind of trainer are started from. */
interface RankedSource {
  readonly device: string;
  readonly devices?: readonly string[];
  readonly rank?: RankSource;
  readonly training: { readonly threads?: number | null; readonly strategy: StrategyOptions };
}

/** Ranks that have met, and the store they met in. */
interface Ranks<Host extends object> {
  readonly ranks: readonly Remote<Host>[];
  readonly store: Store;
}

/**
 * Starts workers that work as one, and brings them together. One that fails to start ends the others.
 *
 * @param address where other machines reach this one
 */
export async function startRanks<Source extends object, Host extends object>(
  starters: readonly RankStarter<Source>[],
  start: (start: Start, source: Source, signal: AbortSignal) => Promise<Remote<Host>>,
  address?: string,
): Promise<Ranks<Host>> {
  const numRanks = starters.length;
  const sharesDevice = new Set(starters.map(({ source: { device }, at }) => `${at ?? ""} ${device}`)).size < numRanks;
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const stop = new AbortController();
  const starts = starters.map(({ start: startRank, source: own, at }, rank) => {
    const across = address !== undefined && at !== undefined && { host: address, address: at };
    const member = { rank, numRanks, port: store.port!, sharesDevice, ...across };
    return start(startRank, { ...own, rank: member }, stop.signal);
  });
  try {
    // The store stays until the ranks are gone: a connection to one that is closed keeps a thread of libtorch 1.13 busy for good.
    return { ranks: await Promise.all(starts), store };
  } catch (cause) {
    // The others wait for the one that failed, and would do so for minutes.
    stop.abort();
    await Promise.allSettled(starts);
    store.dispose();
    throw cause;
  }
}

/** How one rank is started. */
interface RankStarter<Source> {
  readonly start: Start;
  readonly source: Source & { readonly device: string };
  /** Its machine, as the others reach it. Absent: this one. */
  readonly at?: string;
}

function startersOf<Source extends RankedSource>(
  source: Source,
  numRanks: number,
  places: RankPlaces | undefined,
): readonly RankStarter<Source>[] {
  return places === undefined ? startersHere(source, numRanks) : startersAt(source, places);
}

/** Ranks of this machine, each on a GPU of its own where there are GPUs. */
function startersHere<Source extends RankedSource>(source: Source, numRanks: number): readonly RankStarter<Source>[] {
  const isOnGpu = source.device.startsWith("cuda");
  const { in: place } = source.training.strategy;
  const startOther = place === "processes" || (place === "auto" && isOnGpu) ? startInProcess : startInThread;
  const deviceOf = (rank: number) => source.devices?.[rank] ?? (isOnGpu ? `cuda:${rank}` : source.device);
  return Array.from({ length: numRanks }, (_, rank) => ({
    start: rank === 0 ? startInThread : startOther,
    source: { ...source, device: deviceOf(rank) },
  }));
}

/** The first rank here, each of the others on a machine. On a CPU it takes the cores that the machine gives it. */
function startersAt<Source extends RankedSource>(
  source: Source,
  { address, others }: RankPlaces,
): readonly RankStarter<Source>[] {
  const isOnGpu = source.device.startsWith("cuda");
  return [
    { start: startInThread, source: { ...source, device: source.devices?.[0] ?? source.device }, at: address },
    ...others.map(({ start, device, address: at, numCores }) => ({
      start,
      source: {
        ...source,
        device: isOnGpu ? device : source.device,
        numThreads: source.training.threads ?? numCores,
      },
      at,
    })),
  ];
}

type SavedTrainer = Pick<Trainer, "saveModel" | "saveMerged" | "saveState" | "loadState" | "close">;

/** One trainer out of ranks that have met: what each method asks of which rank. */
function joinRanks({ ranks, store }: Ranks<Trainer>): Trainer {
  return {
    // Every rank gives its part of the weights; the first one has them whole.
    withWeights: async (use, which) => {
      const [first, ...others] = ranks;
      const given = others.map((rank) => rank.ask.withWeights(async () => {}, which));
      const [result] = await Promise.all([first!.ask.withWeights(use, which), ...given]);
      return result;
    },
    eachWeights: async (use, which) => {
      const [first, ...others] = ranks;
      const given = others.map((rank) => rank.ask.eachWeights(async () => {}, which));
      await Promise.all([first!.ask.eachWeights(use, which), ...given]);
    },
    withParameters: (use) => ranks[0]!.ask.withParameters(use),
    memory: async () => (await onAll(ranks, (rank) => rank.memory())).flat(),
    ...saveOnAll({ ranks, store }),
    step: async (batch, options) => {
      const reports = await onAll(ranks, (rank, i) => rank.step(batch, optionsOf(i, options)));
      // All ranks know the metrics of the whole step; of single samples each knows those that it trained on.
      const { numbers: _, ...whole } = reports[0]!;
      const numbers = new Map(reports.flatMap((report) => [...(report.numbers ?? [])]));
      return { ...whole, ...(numbers.size > 0 && { numbers }) };
    },
  };
}

/** Only the first rank tells a critic elsewhere what to learn. */
function optionsOf(rank: number, { others, onPhase, ...options }: StepOptions = {}): StepOptions {
  const { critic, ...asked } = others ?? {};
  return {
    ...options,
    ...(others !== undefined && { others: { ...asked, ...(rank === 0 && critic !== undefined && { critic }) } }),
    ...(onPhase !== undefined && { onPhase: oneWay((phase) => onPhase(phase, rank)) }),
  };
}

/**
 * What all ranks do alike. Of a model they give their part, and the first one writes. Of its state each writes its part: the first one may give it back to be
 * written later, and the others, whose memory this process may not share, write it at once.
 */
function saveOnAll({ ranks, store }: Ranks<SavedTrainer>): SavedTrainer {
  return {
    saveModel: async (folder, maxHeldBytes) => (await onAll(ranks, (rank) => rank.saveModel(folder, maxHeldBytes)))[0]!,
    saveMerged: async (folder) => void (await onAll(ranks, (rank) => rank.saveMerged(folder))),
    saveState: async (folder, maxHeldBytes) =>
      (await onAll(ranks, (rank, i) => rank.saveState(folder, i === 0 ? maxHeldBytes : 0)))[0]!,
    loadState: async (folder) => void (await onAll(ranks, (rank) => rank.loadState(folder))),
    close: async () => {
      await Promise.all(ranks.map((rank) => rank.close()));
      store.dispose();
    },
  };
}

function joinTuning({ ranks, store }: Ranks<TuningTrainer>): TuningTrainer {
  return {
    ...saveOnAll({ ranks, store }),
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
  };
}

/** The others of a rank that fails wait for it in a collective: they are ended rather than waited for. */
export async function onAll<Host extends object, Result>(
  ranks: readonly Remote<Host>[],
  call: (rank: Remote<Host>["ask"], index: number) => Promise<Result>,
): Promise<readonly Result[]> {
  try {
    return await Promise.all(ranks.map((rank, i) => call(rank.ask, i)));
  } catch (cause) {
    const reason = await reasonOf(ranks, cause);
    await Promise.race([
      Promise.all(ranks.map((rank) => rank.end(trainerLost("was abandoned")))),
      setTimeout(ENDING_MS, undefined, { ref: false }),
    ]);
    throw reason;
  }
}

/** A rank that is gone is heard of twice: from itself, and from the others, who know only that somebody is. The first says more. */
async function reasonOf(ranks: readonly Remote<object>[], cause: unknown): Promise<unknown> {
  if (!(cause instanceof RerollError) || !OF_OTHERS.includes(cause.code)) return cause;
  for (let look = 0; look < NUM_LOOKS; look++) {
    const ended = ranks.find((rank) => rank.ended !== null)?.ended;
    if (ended) return ended;
    await setTimeout(LOOK_AGAIN_MS);
  }
  return cause;
}

/** Errors of a rank that is well itself. */
const OF_OTHERS: readonly ErrorCode[] = ["PEER_LOST", "COLLECTIVE_FAILED", "COLLECTIVE_TIMEOUT", "GROUP_BROKEN"];
const NUM_LOOKS = 40;
const LOOK_AGAIN_MS = 50;

/** A thread that waits for a machine behind a cut link cannot be ended before its collective gives up. */
const ENDING_MS = 10_000;

/** The places of each rank's examples: dealt out from the longest to the shortest, so that all have about equally many tokens. */
function shareExamples(examples: readonly TuningExample[], numRanks: number): readonly (readonly number[])[] {
  const lengths = examples.map(({ sequences }) => sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
  const byLength = lengths.map((_, place) => place).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  return Array.from({ length: numRanks }, (_, rank) => byLength.filter((_, i) => i % numRanks === rank));
}

function pick<Value>(values: readonly Value[], places: readonly number[]): readonly Value[] {
  return places.map((place) => values[place]!);
}

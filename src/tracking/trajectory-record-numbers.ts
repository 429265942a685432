/**
 * What training saw of each turn of a rollout.
 *
 * In: the groups of a rollout, the rows that were built from them, and numbers per token of some of these rows. Out:
 * the numbers of each turn's reply. A trajectory may have several rows, and a row several turns; turns for which no row
 * has numbers are absent.
 */
import { splitPlayers } from "../flow/split-players.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { TrajectoryGroup, Turn } from "../flow/trajectory.ts";

/** The rows that a step was trained on, and what training reports about them. */
export interface TrainedSamples {
  readonly samples: readonly TokenSample[];
  /** Numbers by index in `samples`. Replayed rows have none: their trajectories belong to another step. */
  readonly numbers: ReadonlyMap<number, SampleNumbers>;
}

/** One entry per token of the row. The report of a training step fits. */
interface SampleNumbers {
  readonly policyLogprobs: Float32Array;
  readonly entropies: Float32Array;
  readonly advantages: Float32Array;
  readonly lossMask: Uint8Array;
}

/** What training saw of a turn: one entry per token of its reply. */
export interface TurnNumbers {
  /** Log-probs under the weights at the start of the step or, where no anchor is measured, at the start of the first update with this turn. */
  readonly policyLogprobs: readonly number[];
  /** Entropies of the next-token distribution under the same weights, in nats. */
  readonly entropies: readonly number[];
  readonly advantages: readonly number[];
  /** Whether the loss counted the token. */
  readonly lossMask: readonly boolean[];
}

/** The numbers of every turn that has some. Log-probs and entropies have 4 digits after the point, advantages 5 in all. */
export function numbersOfTurns(
  groups: readonly TrajectoryGroup[],
  { samples, numbers }: TrainedSamples,
): ReadonlyMap<Turn, TurnNumbers> {
  // Rows number the trajectories that they were built from, which neither failed nor were aborted.
  const trajectories = splitPlayers(groups)
    .flatMap((group) => group.trajectories)
    .filter(({ end }) => end.kind !== "failed" && end.kind !== "aborted");
  const found = new Map<Turn, TurnNumbers>();
  for (const [row, own] of numbers) {
    const sample = samples[row]!;
    const turns = trajectories[sample.trajectory]?.turns.slice(sample.turn) ?? [];
    for (const turn of turnsIn(sample, turns)) found.set(turn, cut(own, turn));
  }
  return found;
}

/** The mean advantage of the tokens that the loss counts, 0 where it counts none; undefined without numbers. */
export function meanAdvantage(turns: readonly (TurnNumbers | undefined)[]): number | undefined {
  const known = turns.filter((turn) => turn !== undefined);
  if (known.length === 0) return undefined;
  const counted = known.flatMap(({ advantages, lossMask }) => advantages.filter((_, i) => lossMask[i]));
  return counted.length === 0 ? 0 : digits(counted.reduce((sum, value) => sum + value, 0) / counted.length);
}

/** The turns in a row: from its first on, each of which extends the tokens before it. */
function turnsIn({ tokenIds }: TokenSample, turns: readonly Turn[]): readonly Turn[] {
  const held: Turn[] = [];
  let end = 0;
  for (const turn of turns) {
    const { promptIds, reply } = turn;
    if (reply.tokenIds.length === 0) continue;
    const start = promptIds.length;
    if (start < end || !isAt(tokenIds, promptIds, 0) || !isAt(tokenIds, reply.tokenIds, start)) break;
    held.push(turn);
    end = start + reply.tokenIds.length;
  }
  return held;
}

function isAt(tokenIds: Int32Array, part: Int32Array, start: number): boolean {
  return part.every((id, i) => tokenIds[start + i] === id);
}

function cut({ policyLogprobs, entropies, advantages, lossMask }: SampleNumbers, { promptIds, reply }: Turn) {
  const start = promptIds.length;
  const stop = start + reply.tokenIds.length;
  return {
    policyLogprobs: Array.from(policyLogprobs.subarray(start, stop), fourPlaces),
    entropies: Array.from(entropies.subarray(start, stop), fourPlaces),
    advantages: Array.from(advantages.subarray(start, stop), digits),
    lossMask: Array.from(lossMask.subarray(start, stop), (value) => value === 1),
  };
}

function fourPlaces(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}

function digits(value: number): number {
  return Number(value.toPrecision(5));
}

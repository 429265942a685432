/**
 * Prioritized replay of whole groups, so that advantages over a group stay what they were.
 *
 * In: the groups of each batch. Out: groups of earlier batches, drawn with P ~ (signal 2^(-age / halfLife))^alpha,
 * where age counts versions, and importance weights (N P)^-beta over the largest of the draw, with beta rising over the
 * run. Without the decay replay does worse than none at all (FreshPER). Prioritized Experience Replay,
 * arXiv:1511.05952, with stratified draws.
 *
 * The decay of all groups is the same from one version to the next, so weights are kept relative to a base version and
 * never change with time. Everything follows from the seed. `position` holds all of it as JSON, about 7 characters per
 * token: some 70 million tokens fit a text.
 */
import { invariant, RerollError } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import { Random, type RandomState } from "../random/random.ts";
import { packSamples, unpackSamples } from "./packed-samples.ts";
import { type ReplayPriority, rarityKeys, rarityOf, signalOf } from "./replay-priority.ts";
import { SumTree } from "./sum-tree.ts";

export interface ReplayOptions {
  /** Trajectories kept. The groups of the lowest priority go first, of equal ones the oldest. */
  readonly capacity: number;
  readonly priority: ReplayPriority;
  /** How strongly priorities count; 0: not at all, recency included. */
  readonly alpha: number;
  /** How much of the draw's bias the weights undo, at the first draw and after `betaDraws` of them. */
  readonly beta: readonly [number, number];
  readonly betaDraws: number;
  /** Versions after which a priority is halved. Infinity for no decay. */
  readonly halfLife: number;
  /** Batches that replay a group before it is removed. */
  readonly maxReuse: number;
  readonly seed: number;
}

/** A group as it comes in: with the samples that were made of it. */
export interface ReplayGroup {
  readonly group: TrajectoryGroup;
  readonly samples: readonly TokenSample[];
}

/** A group that was drawn. One that was drawn several times is there once, with that many times the weight. */
export interface Replay {
  /** For `update`. */
  readonly id: number;
  readonly samples: readonly TokenSample[];
  /** The version that it came in with. */
  readonly version: number;
  readonly weight: number;
}

interface Entry extends Omit<Replay, "weight"> {
  readonly keys: readonly string[];
  /** Undefined where it follows from the other entries. */
  readonly signal: number | undefined;
  readonly numTrajectories: number;
  readonly numUses: number;
}

/** Every group can be drawn, also one whose rewards do not differ; the value is FreshPER's. */
const MIN_SIGNAL = 1e-6;
/** Weights stay within the range of float64: beyond this many halvings from the base, the base moves. */
const MAX_HALVINGS = 256;

export class ReplayBuffer {
  readonly #options: ReplayOptions;
  readonly #tree: SumTree;
  readonly #entries: (Entry | undefined)[];
  readonly #numGroupsWith = new Map<string, number>();
  #random: Random;
  #baseVersion = 0;
  #nextId = 0;
  #numDraws = 0;
  #numGroups = 0;
  #numTrajectories = 0;

  constructor(options: ReplayOptions) {
    this.#options = options;
    // One more than groups of one trajectory need: a new group comes in before another one goes.
    this.#tree = new SumTree(options.capacity + 1);
    this.#entries = new Array<Entry | undefined>(options.capacity + 1).fill(undefined);
    this.#random = new Random(options.seed);
  }

  get numGroups(): number {
    return this.#numGroups;
  }

  get numTrajectories(): number {
    return this.#numTrajectories;
  }

  /** How much of the draw's bias the weights undo now. */
  get beta(): number {
    const { beta, betaDraws } = this.#options;
    return beta[0] + (beta[1] - beta[0]) * Math.min(1, this.#numDraws / betaDraws);
  }

  /**
   * Keeps the groups of a batch and returns their ids, for `update`. Those without a sample, or larger than everything,
   * are left out and have none.
   */
  add(groups: readonly ReplayGroup[], version: number): readonly (number | null)[] {
    const { capacity, priority } = this.#options;
    const largest = this.#largestSignal();
    this.#moveBase(version);
    const ids = groups.map(({ group, samples }) => {
      const numTrajectories = new Set(samples.map(({ trajectory }) => trajectory)).size;
      if (numTrajectories === 0 || numTrajectories > capacity) return null;
      const signal = signalOf(priority, group, largest);
      const keys = signal === undefined ? rarityKeys(group) : [];
      const id = this.#nextId++;
      const slot = this.#entries.indexOf(undefined);
      this.#insert(slot, { id, samples, version, keys, signal, numTrajectories, numUses: 0 });
      while (this.#numTrajectories > capacity) this.#remove(this.#lowestSlot());
      return id;
    });
    this.#settle();
    return ids;
  }

  /** Draws this many times, but at most as often as there are groups. Every call moves beta on. */
  draw(numTimes: number): readonly Replay[] {
    const { numGroups, beta } = this;
    this.#numDraws++;
    const drawn = [...this.#drawSlots(Math.min(numTimes, numGroups))].map(([slot, times]) => {
      const probability = this.#tree.get(slot) / this.#tree.total;
      return { slot, times, weight: importanceWeight(probability, numGroups, beta) };
    });
    const largest = drawn.reduce((most, { weight }) => Math.max(most, weight), 0);
    const replays = drawn.map(({ slot, times, weight }) => {
      const { id, samples, version } = this.#entries[slot]!;
      return { id, samples, version, weight: (times * weight) / largest };
    });
    for (const { slot } of drawn) this.#use(slot);
    this.#settle();
    return replays;
  }

  /** New signals of groups, such as the mean |TD error| that training found. Groups that are gone are passed over. */
  update(ids: readonly number[], signals: readonly number[]): void {
    const signalFor = new Map(ids.map((id, i) => [id, expectSignal(signals[i])]));
    for (const [slot, entry] of this.#entries.entries()) {
      const signal = entry && signalFor.get(entry.id);
      if (entry === undefined || signal === undefined) continue;
      this.#entries[slot] = { ...entry, signal };
      this.#weigh(slot);
    }
  }

  /** All that later draws depend on. */
  position(): JsonValue {
    return {
      random: this.#random.state(),
      ...{ baseVersion: this.#baseVersion, nextId: this.#nextId, numDraws: this.#numDraws },
      entries: this.#entries.flatMap((entry, slot) => {
        if (entry === undefined) return [];
        const { samples, signal = null, ...facts } = entry;
        return [{ slot, ...facts, signal, samples: packSamples(samples) }];
      }),
    };
  }

  restore(position: JsonValue): void {
    const saved = position as unknown as SavedReplay;
    const { capacity } = this.#options;
    const numSaved = saved.entries.reduce((sum, { numTrajectories }) => sum + numTrajectories, 0);
    if (numSaved > capacity || saved.entries.some(({ slot }) => slot > capacity)) {
      throw new RerollError(
        "REPLAY_TOO_SMALL",
        `replay.capacity is ${capacity}, but the saved replay was larger: it has ${numSaved} trajectories. Resume with the capacity that it was saved with.`,
        { capacity, numSaved },
      );
    }
    for (const [slot, entry] of this.#entries.entries()) if (entry !== undefined) this.#remove(slot);
    this.#random = new Random(saved.random);
    this.#baseVersion = saved.baseVersion;
    this.#nextId = saved.nextId;
    this.#numDraws = saved.numDraws;
    for (const { slot, signal, samples, ...facts } of saved.entries) {
      this.#insert(slot, { ...facts, signal: signal ?? undefined, samples: unpackSamples(samples) });
    }
    this.#settle();
  }

  /** How often each slot is drawn: once in each of equal stretches of the total, so that the draw lies close to P. */
  #drawSlots(numTimes: number): ReadonlyMap<number, number> {
    const timesOf = new Map<number, number>();
    // Groups that are a thousand half-lives old have no weight left.
    if (this.#tree.total === 0) return timesOf;
    for (let i = 0; i < numTimes; i++) {
      const slot = this.#tree.find(((i + this.#random.uniform()) / numTimes) * this.#tree.total);
      timesOf.set(slot, (timesOf.get(slot) ?? 0) + 1);
    }
    return timesOf;
  }

  #use(slot: number): void {
    const entry = this.#entries[slot]!;
    const numUses = entry.numUses + 1;
    if (numUses >= this.#options.maxReuse) this.#remove(slot);
    else this.#entries[slot] = { ...entry, numUses };
  }

  #insert(slot: number, entry: Entry): void {
    this.#entries[slot] = entry;
    this.#count(entry, 1);
    this.#weigh(slot);
  }

  #remove(slot: number): void {
    this.#count(this.#entries[slot]!, -1);
    this.#entries[slot] = undefined;
    this.#tree.set(slot, 0);
  }

  #count({ keys, numTrajectories }: Entry, sign: 1 | -1): void {
    this.#numGroups += sign;
    this.#numTrajectories += sign * numTrajectories;
    for (const key of keys) {
      const count = (this.#numGroupsWith.get(key) ?? 0) + sign;
      if (count === 0) this.#numGroupsWith.delete(key);
      else this.#numGroupsWith.set(key, count);
    }
  }

  /** 1 where there is none to go by. */
  #largestSignal(): number {
    const signals = this.#entries.flatMap((entry) => entry?.signal ?? []);
    return signals.length === 0 ? 1 : signals.reduce((most, signal) => Math.max(most, signal), 0);
  }

  #lowestSlot(): number {
    let lowest: { readonly slot: number; readonly priority: number; readonly id: number } | undefined;
    for (const [slot, entry] of this.#entries.entries()) {
      if (entry === undefined) continue;
      const priority = this.#priorityOf(entry);
      const isLower = lowest === undefined || priority < lowest.priority;
      if (isLower || (priority === lowest?.priority && entry.id < lowest.id)) lowest = { slot, priority, id: entry.id };
    }
    invariant(lowest !== undefined, "a replay buffer that is too full has a group");
    return lowest.slot;
  }

  #weigh(slot: number): void {
    const entry = this.#entries[slot];
    if (entry !== undefined) this.#tree.set(slot, this.#priorityOf(entry) ** this.#options.alpha);
  }

  /** As of the base version. */
  #priorityOf({ signal, keys, version }: Entry): number {
    const value = signal ?? rarityOf(keys, this.#numGroupsWith);
    return Math.max(value, MIN_SIGNAL) * 2 ** ((version - this.#baseVersion) / this.#options.halfLife);
  }

  #moveBase(version: number): void {
    if ((version - this.#baseVersion) / this.#options.halfLife <= MAX_HALVINGS) return;
    this.#baseVersion = version;
    for (const slot of this.#entries.keys()) this.#weigh(slot);
  }

  /** Where signals depend on the other groups, they have changed with them. */
  #settle(): void {
    if (this.#options.priority === "rarity") for (const slot of this.#entries.keys()) this.#weigh(slot);
  }
}

/**
 * What undoes the bias of a draw from N groups: 1 where it is drawn as often as any other. E[w f] at beta 1 is the mean
 * of f.
 */
export function importanceWeight(probability: number, numGroups: number, beta: number): number {
  return (numGroups * probability) ** -beta;
}

interface SavedReplay {
  readonly random: RandomState;
  readonly baseVersion: number;
  readonly nextId: number;
  readonly numDraws: number;
  readonly entries: readonly (Omit<Entry, "samples" | "signal"> & {
    readonly slot: number;
    readonly signal: number | null;
    readonly samples: JsonValue;
  })[];
}

function expectSignal(signal: number | undefined): number {
  if (signal !== undefined && signal >= 0 && signal < Infinity) return signal;
  throw new RerollError("INVALID_ARGUMENT", `A replay signal must be finite and at least 0: got ${signal}.`, {
    signal,
  });
}

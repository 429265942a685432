/**
 * Prioritized replay of whole groups, so that advantages over a group stay what they were.
 *
 * In: the groups of each batch. Out: groups of earlier batches, drawn with P ~ priority^alpha, where a priority is the
 * product of its signals, each to the power of its weight, and recency is 2^(-age / halfLife). Importance weights are
 * (N P)^-beta divided by the largest in the draw, with beta rising over the run. Replay without recency does worse than
 * no replay at all (FreshPER). Prioritized Experience Replay, arXiv:1511.05952, with stratified draws.
 *
 * The age of a group is the staleness of its oldest token, in training steps. Groups older than `maxAge` are not drawn.
 * Recency falls for all groups alike from one step to the next, so priorities are kept relative to a base version and
 * never change with time. Everything follows from the seed. `position` holds all of it as JSON, about 7 characters per
 * token: some 70 million tokens fit a text.
 */
import { invariant, RerollError } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import { Random, type RandomState } from "../random/random.ts";
import { packSamples, unpackSamples } from "./packed-samples.ts";
import { type KnownSignals, type ReplayWeights, rarityKeys, rarityOf, signalsOf } from "./replay-priority.ts";
import { SumTree } from "./sum-tree.ts";

export interface ReplayOptions {
  /** Maximum number of trajectories kept. */
  readonly capacity: number;
  /**
   * What is evicted when the buffer is full: the group of the lowest priority, or the oldest. Among equals, the one
   * that came first.
   */
  readonly eviction: "priority" | "age";
  readonly weights: ReplayWeights;
  /** How strongly priorities count. 0: not at all, not even recency. */
  readonly alpha: number;
  /** How much of the sampling bias the weights undo, at the first draw and after `betaDraws` draws. */
  readonly beta: readonly [number, number];
  readonly betaDraws: number;
  /** Training steps after which recency is halved. */
  readonly halfLife: number;
  /** Maximum staleness of a group's oldest token, in training steps. Older groups are removed. */
  readonly maxAge: number;
  /** Number of batches that replay a group before it is removed. */
  readonly maxReuse: number;
  readonly seed: number;
}

/** A group as it comes in, with the rows that were built from it. */
export interface ReplayGroup {
  readonly group: TrajectoryGroup;
  readonly samples: readonly TokenSample[];
  /** The version of its oldest token. */
  readonly version: number;
}

/** A group that was drawn. One that was drawn several times appears once, with that many times the weight. */
export interface Replay {
  /** For `update`. */
  readonly id: number;
  readonly samples: readonly TokenSample[];
  /** The version of its oldest token. */
  readonly version: number;
  readonly weight: number;
}

interface Entry extends Omit<Replay, "weight"> {
  /** Keys that rarity is counted over; empty if rarity has no weight. */
  readonly keys: readonly string[];
  readonly signals: KnownSignals;
  readonly numTrajectories: number;
  readonly numUses: number;
}

/** Smallest signal, so that every group can be drawn, even one whose rewards do not differ. FreshPER's value. */
const MIN_SIGNAL = 1e-6;
/** The base moves after this many halvings, so that weights stay within the range of float64. */
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
    // One more slot than groups of one trajectory need: a new group comes in before another one is evicted.
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

  /** How much of the sampling bias the weights undo now. */
  get beta(): number {
    const { beta, betaDraws } = this.#options;
    return beta[0] + (beta[1] - beta[0]) * Math.min(1, this.#numDraws / betaDraws);
  }

  /**
   * Keeps the groups of a batch and returns their ids, for `update`. Groups without a row, or larger than the whole
   * buffer, are left out and have no id.
   */
  add(groups: readonly ReplayGroup[]): readonly (number | null)[] {
    const { capacity, weights } = this.#options;
    const largest = this.#largestTdError();
    const ids = groups.map(({ group, samples, version }) => {
      const numTrajectories = new Set(samples.map(({ trajectory }) => trajectory)).size;
      if (numTrajectories === 0 || numTrajectories > capacity) return null;
      this.#moveBase(version);
      const signals = signalsOf(group, largest);
      const keys = weights.rarity === 0 ? [] : rarityKeys(group);
      const id = this.#nextId++;
      const slot = this.#entries.indexOf(undefined);
      this.#insert(slot, { id, samples, version, keys, signals, numTrajectories, numUses: 0 });
      while (this.#numTrajectories > capacity) this.#remove(this.#firstToGo());
      return id;
    });
    this.#settle();
    return ids;
  }

  /**
   * Draws this many times, but at most as many times as there are groups, for training weights of this version. Every
   * call advances beta.
   */
  draw(numTimes: number, version: number): readonly Replay[] {
    this.#removeBefore(version - this.#options.maxAge);
    const { numGroups, beta } = this;
    this.#numDraws++;
    const drawn = [...this.#drawSlots(Math.min(numTimes, numGroups))].map(([slot, wanted]) => {
      const times = Math.min(wanted, this.#options.maxReuse - this.#entries[slot]!.numUses);
      const probability = this.#tree.get(slot) / this.#tree.total;
      return { slot, times, weight: importanceWeight(probability, numGroups, beta) };
    });
    const largest = drawn.reduce((most, { weight }) => Math.max(most, weight), 0);
    const replays = drawn.map(({ slot, times, weight }) => {
      const { id, samples, version: drawnWith } = this.#entries[slot]!;
      return { id, samples, version: drawnWith, weight: (times * weight) / largest };
    });
    for (const { slot, times } of drawn) this.#use(slot, times);
    this.#settle();
    return replays;
  }

  /** Takes the mean |TD error| that training found for each group. Groups that are gone are skipped. */
  update(ids: readonly number[], tdErrors: readonly number[]): void {
    const errorFor = new Map(ids.map((id, i) => [id, expectSignal(tdErrors[i])]));
    for (const [slot, entry] of this.#entries.entries()) {
      const tdError = entry && errorFor.get(entry.id);
      if (entry === undefined || tdError === undefined) continue;
      this.#entries[slot] = { ...entry, signals: { ...entry.signals, "td-error": tdError } };
      this.#weigh(slot);
    }
  }

  /** Everything that later draws depend on. */
  position(): JsonValue {
    return {
      random: this.#random.state(),
      ...{ baseVersion: this.#baseVersion, nextId: this.#nextId, numDraws: this.#numDraws },
      entries: this.#entries.flatMap((entry, slot) => {
        if (entry === undefined) return [];
        const { samples, signals, ...facts } = entry;
        return [{ slot, ...facts, signals: { ...signals }, samples: packSamples(samples) }];
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
    for (const { slot, samples, ...facts } of saved.entries) {
      this.#insert(slot, { ...facts, samples: unpackSamples(samples) });
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

  #use(slot: number, times: number): void {
    const entry = this.#entries[slot]!;
    const numUses = entry.numUses + times;
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

  #removeBefore(version: number): void {
    for (const [slot, entry] of this.#entries.entries()) {
      if (entry !== undefined && entry.version < version) this.#remove(slot);
    }
    this.#settle();
  }

  /** The largest TD error in the buffer; 1 if none is known. */
  #largestTdError(): number {
    const errors = this.#entries.flatMap((entry) => entry?.signals["td-error"] ?? []);
    return errors.length === 0 ? 1 : errors.reduce((most, error) => Math.max(most, error), 0);
  }

  #firstToGo(): number {
    const isByAge = this.#options.eviction === "age";
    let first: { readonly slot: number; readonly worth: number; readonly id: number } | undefined;
    for (const [slot, entry] of this.#entries.entries()) {
      if (entry === undefined) continue;
      const worth = isByAge ? entry.version : this.#priorityOf(entry);
      const isLower = first === undefined || worth < first.worth;
      if (isLower || (worth === first?.worth && entry.id < first.id)) first = { slot, worth, id: entry.id };
    }
    invariant(first !== undefined, "a replay buffer that is too full has a group");
    return first.slot;
  }

  #weigh(slot: number): void {
    const entry = this.#entries[slot];
    if (entry !== undefined) this.#tree.set(slot, this.#priorityOf(entry) ** this.#options.alpha);
  }

  /** The priority of a group as of the base version. */
  #priorityOf({ signals, keys, version }: Entry): number {
    const { weights } = this.#options;
    const power = (signal: number, weight: number) => (weight === 0 ? 1 : Math.max(signal, MIN_SIGNAL) ** weight);
    const rarity = weights.rarity === 0 ? 1 : power(rarityOf(keys, this.#numGroupsWith), weights.rarity);
    const own = power(signals.advantage, weights.advantage) * power(signals.reward, weights.reward);
    return own * power(signals["td-error"], weights["td-error"]) * rarity * 2 ** this.#halvingsTo(version);
  }

  /** How often recency doubles from the base version to this one. */
  #halvingsTo(version: number): number {
    const { weights, halfLife } = this.#options;
    return (weights.recency * (version - this.#baseVersion)) / halfLife;
  }

  #moveBase(version: number): void {
    if (this.#halvingsTo(version) <= MAX_HALVINGS) return;
    this.#baseVersion = version;
    for (const slot of this.#entries.keys()) this.#weigh(slot);
  }

  /** Updates the priorities whose signals depend on other groups, after those have changed. */
  #settle(): void {
    if (this.#options.weights.rarity > 0) for (const slot of this.#entries.keys()) this.#weigh(slot);
  }
}

/**
 * The weight that undoes the bias of a draw from N groups: 1 for a group as likely as any other. At beta 1, E[w f] is
 * the mean of f.
 */
export function importanceWeight(probability: number, numGroups: number, beta: number): number {
  return (numGroups * probability) ** -beta;
}

interface SavedReplay {
  readonly random: RandomState;
  readonly baseVersion: number;
  readonly nextId: number;
  readonly numDraws: number;
  readonly entries: readonly (Omit<Entry, "samples"> & { readonly slot: number; readonly samples: JsonValue })[];
}

function expectSignal(signal: number | undefined): number {
  if (signal !== undefined && signal >= 0 && signal < Infinity) return signal;
  throw new RerollError("INVALID_ARGUMENT", `A TD error must be finite and at least 0: got ${signal}.`, {
    signal,
  });
}

/**
 * The prompts that groups start from, by domain: first those that were given back, then new ones from the source.
 *
 * In: sources. Out: prompts, each with a number that depends on its domain and its place in it, not on timing.
 * `position` is valid at any moment, even while a source is being read: a restart neither loses nor repeats a prompt.
 */
import type { PromptSource } from "../data/prompt-source.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import type { GroupPlan } from "./group-run.ts";

/** A domain: the source of its prompts and its share. */
export interface DomainSource {
  /** Share of the delivered groups, relative to the other domains. */
  readonly share: number;
  readonly source: PromptSource;
}

export class PromptQueue {
  readonly #sources: readonly DomainSource[];
  readonly #givenBack: Prompt[][];
  readonly #isRead: boolean[];
  readonly #numTaken: number[];
  /** The domain whose source is being read, its position before that, and the outcomes it was told since. */
  #reading: { readonly domain: number; readonly position: JsonValue; readonly told: Outcome[] } | null = null;

  constructor(sources: readonly DomainSource[]) {
    this.#sources = sources;
    this.#givenBack = sources.map(() => []);
    this.#isRead = sources.map(({ share }) => share === 0);
    this.#numTaken = sources.map(() => 0);
  }

  /** Whether a source is being asked, which may take as long as the code that makes its prompts. */
  get isReading(): boolean {
    return this.#reading !== null;
  }

  /** Whether the domain may still have another prompt. */
  isOpen(domain: number): boolean {
    return !this.#isRead[domain] || this.#givenBack[domain]!.length > 0;
  }

  /**
   * Hands the next prompt to `start`, one call at a time. It leaves the queue in the same instant in which `start` takes it, so
   * that it is in every position; it stays where `start` refuses it. Nothing happens if the domain turns out to be at its end.
   */
  async next(domain: number, start: (plan: GroupPlan) => boolean): Promise<void> {
    const waiting = this.#givenBack[domain]!;
    if (waiting.length === 0) await this.#read(domain);
    const [prompt] = waiting;
    if (prompt === undefined) return;
    const index = this.#numTaken[domain]! * this.#sources.length + domain;
    if (!start({ index, domain, prompt })) return;
    waiting.shift();
    this.#numTaken[domain]!++;
  }

  /** Takes back the prompts of groups that came to nothing, in the order in which they are to start again. */
  giveBack(plans: readonly GroupPlan[]): void {
    for (const { domain, prompt } of plans) this.#givenBack[domain]!.push(prompt);
  }

  /** Tells the source of a group's prompt how it went. */
  record({ id, prompt, trajectories }: TrajectoryGroup): void {
    const domain = Number(id) % this.#sources.length;
    const outcome: Outcome = [prompt.id, trajectories.map(({ reward }) => reward.total)];
    if (this.#reading?.domain === domain) this.#reading.told.push(outcome);
    this.#sources[domain]!.source.record?.(...outcome);
  }

  /** @param pending groups on their way, which start again from their prompts */
  position(pending: readonly GroupPlan[]): JsonValue {
    const waiting = this.#givenBack.map((prompts, domain) => [
      ...pending.filter((plan) => plan.domain === domain).map(({ prompt }) => prompt),
      ...prompts,
    ]);
    return {
      numTaken: [...this.#numTaken],
      waiting: waiting as unknown as JsonValue,
      sources: this.#sources.map(({ source }, domain) =>
        this.#reading?.domain === domain ? this.#reading.position : source.position(),
      ),
      told: this.#sources.map((_, domain) =>
        this.#reading?.domain === domain ? this.#reading.told.map(([id, rewards]) => [id, [...rewards]]) : [],
      ),
    };
  }

  async restore(position: JsonValue): Promise<void> {
    const saved = position as unknown as SavedQueue;
    if (saved.sources.length !== this.#sources.length) {
      throw new RerollError(
        "STATE_MISMATCH",
        `The saved run has ${saved.sources.length} domains of prompts and this one has ${this.#sources.length}. Resume with the data of the saved run, or start a new run.`,
      );
    }
    this.#sources.forEach((_, domain) => {
      this.#numTaken[domain] = saved.numTaken[domain]!;
      this.#givenBack[domain]!.splice(0, Infinity, ...saved.waiting[domain]!);
    });
    await Promise.all(this.#sources.map(({ source }, domain) => source.restore(saved.sources[domain]!)));
    this.#sources.forEach(({ source }, domain) => {
      for (const outcome of saved.told[domain]!) source.record?.(...outcome);
    });
  }

  /** Reads a prompt into the queue. */
  async #read(domain: number): Promise<void> {
    if (this.#isRead[domain]) return;
    const { source } = this.#sources[domain]!;
    this.#reading = { domain, position: source.position(), told: [] };
    try {
      const [prompt] = await source.next(1);
      if (prompt === undefined) this.#isRead[domain] = true;
      else this.#givenBack[domain]!.push(prompt);
    } finally {
      this.#reading = null;
    }
  }
}

/** A prompt's id and the rewards of its trajectories. */
type Outcome = readonly [promptId: string, rewards: readonly number[]];

interface SavedQueue {
  readonly numTaken: readonly number[];
  readonly waiting: readonly (readonly Prompt[])[];
  readonly sources: readonly JsonValue[];
  readonly told: readonly (readonly Outcome[])[];
}

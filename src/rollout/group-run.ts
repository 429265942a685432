/**
 * One group on its way: which of its samples are waiting, are running, ended well, or failed.
 *
 * A group is complete when `groupSize` samples ended well, and its greedy trajectory where it has one. A failed sample is replaced by
 * a new one, up to a limit; then the whole group is given up.
 */
import { setMaxListeners } from "node:events";
import type { Prompt } from "../flow/prompt.ts";
import type { Trajectory, TrajectoryGroup } from "../flow/trajectory.ts";
import { deriveSeed } from "../random/random.ts";
import type { EpisodeTask } from "./episode.ts";
import { OVER } from "./failure-policy.ts";
import { oldestVersionOf } from "./oldest-version.ts";

export interface GroupPlan {
  readonly index: number;
  readonly domain: number;
  readonly prompt: Prompt;
}

export interface GroupSizes {
  readonly groupSize: number;
  readonly extraSamples: number;
  /** Number of failed samples that are replaced before the group is given up. */
  readonly maxFailures: number;
  /** Whether the group has a greedy trajectory beside its samples. Default false. */
  readonly hasGreedy?: boolean;
}

/** A sample that is waiting, and since when. */
export interface SampleTask extends Omit<EpisodeTask, "queuedMs"> {
  readonly queuedAtMs: number;
  readonly isGreedy: boolean;
}

/** Called for samples that start waiting, and for those that will never start; returns the time. */
type TellSample = (sampleId: string, stage: "queued" | "aborted") => number;

export class GroupRun {
  readonly plan: GroupPlan;
  readonly #sizes: GroupSizes;
  readonly #seed: number;
  readonly #tell: TellSample;
  readonly #good: Trajectory[] = [];
  #waiting: SampleTask[] = [];
  #greedy: Trajectory | undefined;
  /** The sample that is to become the greedy trajectory. */
  #greedyId: string | null = null;
  /** Stops all samples: whatever ends one of them early ends the group. */
  readonly #controller = new AbortController();
  /** For each running sample, the version at the time its first reply was requested. */
  readonly #askedUnder = new Map<string, number>();
  #numMade = 0;
  #numFailed = 0;
  #isAborted = false;

  constructor(plan: GroupPlan, sizes: GroupSizes, seed: number, tell: TellSample) {
    this.plan = plan;
    this.#sizes = sizes;
    this.#seed = deriveSeed(seed, "group", plan.index);
    this.#tell = tell;
    // Every sample listens while it runs: no leak to warn of.
    setMaxListeners(0, this.#controller.signal);
    if (sizes.hasGreedy) this.#addSample(true);
    for (let i = 0; i < sizes.groupSize + sizes.extraSamples; i++) this.#addSample(false);
  }

  get id(): string {
    return String(this.plan.index);
  }

  get isComplete(): boolean {
    return this.#hasEnoughSamples && (this.#greedy !== undefined || !this.#sizes.hasGreedy);
  }

  get #hasEnoughSamples(): boolean {
    return this.#good.length >= this.#sizes.groupSize;
  }

  get isGivenUp(): boolean {
    return this.#isAborted || this.#numFailed > this.#sizes.maxFailures;
  }

  /** The next sample to start, or undefined if none is waiting. */
  start(): { readonly task: SampleTask; readonly signal: AbortSignal } | undefined {
    const task = this.#waiting.shift();
    return task && { task, signal: this.#controller.signal };
  }

  /**
   * The version of the oldest token. A running sample counts with the version under which its first reply was
   * requested.
   */
  get oldestVersion(): number {
    const oldest = oldestVersionOf(this.#greedy === undefined ? this.#good : [...this.#good, this.#greedy]);
    return this.isComplete ? oldest : Math.min(oldest, ...this.#askedUnder.values());
  }

  /** A running sample asks for a reply, while tokens are drawn with this version. */
  noteReply(sampleId: string, version: number): void {
    if (!this.#askedUnder.has(sampleId)) this.#askedUnder.set(sampleId, version);
  }

  finish(trajectory: Trajectory): void {
    this.#askedUnder.delete(trajectory.id);
    const isGreedy = trajectory.id === this.#greedyId;
    if (this.isComplete || this.isGivenUp || (this.#hasEnoughSamples && !isGreedy)) return;
    const { kind } = trajectory.end;
    // Nothing here ends a sample of a group that is still needed, so an aborted one counts as failed; otherwise the
    // group would wait for it.
    if (kind === "failed" || kind === "aborted") {
      this.#numFailed++;
      if (this.isGivenUp) this.#stop();
      else this.#addSample(isGreedy);
      return;
    }
    if (isGreedy) this.#greedy = trajectory;
    else this.#good.push(trajectory);
    if (this.isComplete) this.#stop();
    else if (this.#hasEnoughSamples) this.#dropWaiting(({ isGreedy }) => !isGreedy);
  }

  /** Ends all samples: nothing of the group will be used. */
  abort(): void {
    this.#isAborted = true;
    this.#stop();
  }

  /** The samples that ended well, in the order of their places. */
  group(): TrajectoryGroup {
    const trajectories = this.#good.toSorted((a, b) => a.sampleIndex - b.sampleIndex);
    const greedy = this.#greedy && { greedy: this.#greedy };
    return { id: this.id, prompt: this.plan.prompt, trajectories, ...greedy };
  }

  #addSample(isGreedy: boolean): void {
    const sampleIndex = this.#numMade++;
    const id = `${this.id}-${sampleIndex}`;
    const seed = deriveSeed(this.#seed, sampleIndex);
    const queuedAtMs = this.#tell(id, "queued");
    if (isGreedy) this.#greedyId = id;
    this.#waiting.push({ id, groupId: this.id, prompt: this.plan.prompt, sampleIndex, seed, queuedAtMs, isGreedy });
  }

  #stop(): void {
    this.#dropWaiting(() => true);
    this.#controller.abort(OVER);
  }

  #dropWaiting(isDropped: (task: SampleTask) => boolean): void {
    for (const task of this.#waiting) if (isDropped(task)) this.#tell(task.id, "aborted");
    this.#waiting = this.#waiting.filter((task) => !isDropped(task));
  }
}

/**
 * From prompts to scored groups, at the grain of one sample.
 *
 * Samples start while there is room, are scored the moment they end, and nobody waits for the slowest: groups that are complete
 * pass the filter and are ready; dropped ones are refilled; when enough are there the rest is ended, held, or goes on.
 *
 * Waits for: `take` for ready groups. Freed by: groups that complete, the end of all sources, the signal, or an error that says why
 * nothing useful comes. With nothing extra asked for, the groups of a seed do not depend on timing.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { EpisodeStage, SampleStage } from "../flow/sample-event.ts";
import type { Trajectory, TrajectoryGroup } from "../flow/trajectory.ts";
import { type Admission, admitWanted } from "./admission.ts";
import { type DomainQuotas, sharesOf, splitByShare } from "./domain-quotas.ts";
import { FailureCount } from "./failure-count.ts";
import { Gate } from "./gate.ts";
import { type GroupCounts, neediestDomain, numMissing } from "./group-demand.ts";
import { type GroupPlan, GroupRun, type SampleTask } from "./group-run.ts";
import { PromptQueue } from "./prompt-queue.ts";
import { ReadyGroups } from "./ready-groups.ts";
import { ReportBuilder, type Rollout, rolloutMetrics } from "./rollout-report.ts";
import { runSample } from "./run-sample.ts";
import type { SchedulerParts } from "./scheduler-parts.ts";

export type { DomainSource } from "./prompt-queue.ts";
export type { SchedulerOptions, SchedulerParts } from "./scheduler-parts.ts";

/** Prompts that do not fit the context, before the first one that does, after which a run is not waited for any longer. */
const MAX_UNFIT_PROMPTS = 1024;

/** Prompts in a row that could not be made, after which no further one is asked for. */
const MAX_UNMADE_PROMPTS = 16;

export class RolloutScheduler {
  readonly #parts: SchedulerParts;
  readonly #admission: Admission;
  readonly #shares: readonly number[];
  readonly #gate = new Gate();
  readonly #prompts: PromptQueue;
  readonly #ready: ReadyGroups;
  readonly #running = new Map<string, GroupRun>();
  readonly #numRunning: number[];
  readonly #counts: GroupCounts = {
    ready: (domain) => this.#ready.numOf(domain),
    running: (domain) => this.#numRunning[domain]!,
    isOpen: (domain) => this.#prompts.isOpen(domain),
  };
  /** Groups with samples that have not started. */
  readonly #startable = new Set<GroupRun>();
  readonly #endings = new Set<Promise<void>>();
  readonly #report = new ReportBuilder();
  #owed: readonly number[];
  #wanted: Wanted | null = null;
  /** What went wrong while nobody was waiting. Nothing starts until `take` has reported it. */
  #failure: { readonly cause: unknown } | null = null;
  #lastAsked = Infinity;
  #numDelivered = 0;
  #numInFlight = 0;
  #numFiltered = 0;
  readonly #failures = new FailureCount();
  #numGroupsStarted = 0;
  /** Prompts that did not fit the context, by id, until one does. */
  #unfit: Set<string> | null = new Set();
  /** Prompts that could not be made since one could. */
  #numUnmade = 0;
  /** Training steps done. */
  #step = 0;
  /** The step whose weights new tokens are drawn with. */
  #version = 0;
  #pumping: Promise<void> = Promise.resolve();
  #isPumping = false;
  /** Set while pumping, when something that was found full or empty may no longer be. */
  #hasChanged = false;
  #isClosed = false;

  constructor(parts: SchedulerParts) {
    const { options, sources } = parts;
    for (const key of ["groupSize", "maxInFlight"] as const) expectCount(key, options[key]);
    this.#parts = parts;
    this.#admission = options.admission ?? admitWanted();
    this.#shares = sharesOf(sources.map(({ share }) => share));
    this.#prompts = new PromptQueue(sources);
    this.#ready = new ReadyGroups(sources.length);
    this.#numRunning = sources.map(() => 0);
    this.#owed = sources.map(() => 0);
  }

  /**
   * Sets how many training steps are done, and the step whose weights draw new tokens, which is the same except between
   * two publications. Decides how far rollout may run ahead, and what is too old by now. Call it after every training
   * step.
   */
  setProgress(step: number, version = step): void {
    const { maxStaleness = Infinity } = this.#parts.options;
    if (step - version > maxStaleness) throw neverFresh(step, version, maxStaleness);
    this.#step = step;
    this.#version = version;
    for (const { plan, group } of this.#ready.dropBefore(step - maxStaleness)) this.#dropStale(plan, group);
    const isStale = (run: GroupRun) => step - run.oldestVersion > maxStaleness;
    for (const run of this.#cancel(isStale)) this.#dropStale(run.plan, run.group());
    this.#pump();
  }

  /** Waits for this many useful groups. Returns fewer only when the sources are at their end. */
  async take(numGroups: number, signal: AbortSignal): Promise<Rollout> {
    if (this.#isClosed) throw closed();
    if (this.#wanted !== null) throw new RerollError("BUSY", "RolloutScheduler.take is already waiting for groups.");
    expectCount("numGroups", numGroups);
    signal.throwIfAborted();
    const onAbort = () => this.#fail(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await new Promise((resolve, reject) => {
        this.#wanted = { numGroups, ...splitByShare(this.#shares, this.#owed, numGroups), resolve, reject };
        this.#lastAsked = numGroups;
        this.#gate.open();
        if (this.#failure !== null) this.#fail(this.#failure.cause);
        this.#checkEnough();
        this.#pump();
      });
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /**
   * The prompts of groups that are not delivered yet, and the positions of the sources: enough to go on after a
   * restart.
   */
  position(): JsonValue {
    const running = [...this.#running.values()].map(({ plan }) => plan);
    const pending = [...this.#ready.plans, ...running].sort((a, b) => a.index - b.index);
    return { numDelivered: this.#numDelivered, owed: [...this.#owed], prompts: this.#prompts.position(pending) };
  }

  /** Call it before anything else. */
  async restore(position: JsonValue): Promise<void> {
    const saved = position as unknown as SavedPosition;
    await this.#prompts.restore(saved.prompts);
    this.#numDelivered = saved.numDelivered;
    this.#owed = saved.owed;
  }

  /** Ends everything that runs, and waits until it has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#wanted !== null) this.#fail(closed());
    this.#cancelRunning();
    this.#gate.open();
    // What a source still has to say is not waited for: nothing is started with it.
    if (!this.#prompts.isReading) await this.#pumping;
    while (this.#endings.size > 0) await Promise.all(this.#endings);
  }

  /** Starts samples while there is room for them. Called whenever something has changed. */
  #pump(): void {
    this.#hasChanged = true;
    if (!this.#isPumping) this.#pumping = this.#startAll().catch((cause: unknown) => this.#fail(cause));
  }

  async #startAll(): Promise<void> {
    this.#isPumping = true;
    try {
      while (this.#hasChanged) {
        this.#hasChanged = false;
        while (this.#hasRoom() && (this.#startSample() || (await this.#startGroup()))) {}
        if (!this.#hasChanged) this.#checkEnd();
      }
    } finally {
      this.#isPumping = false;
    }
  }

  #hasRoom(): boolean {
    const isStopped = this.#isClosed || this.#failure !== null || !this.#gate.isOpen;
    return !isStopped && this.#numInFlight < this.#parts.options.maxInFlight;
  }

  /** Starts one sample of a group that is already running. */
  #startSample(): boolean {
    for (const run of this.#startable) {
      const next = run.start();
      if (next === undefined) {
        this.#startable.delete(run);
        continue;
      }
      const ending = this.#runSample(run, next.task, next.signal)
        .catch((cause: unknown) => this.#fail(cause))
        .finally(() => this.#endings.delete(ending));
      this.#endings.add(ending);
      return true;
    }
    return false;
  }

  async #startGroup(): Promise<boolean> {
    const domain = this.#hasRoomForGroup()
      ? neediestDomain(this.#wanted, this.#counts, this.#shares, this.#owed)
      : undefined;
    if (domain === undefined) return false;
    let isWanted = true;
    try {
      await this.#prompts.next(domain, (plan) => {
        this.#numUnmade = 0;
        // While a source is read, the take that wanted the group may end.
        isWanted = !this.#isClosed && this.#hasRoomForGroup();
        if (isWanted) this.#addGroup(plan);
        return isWanted;
      });
    } catch (cause) {
      this.#skipUnmade(cause);
    }
    return isWanted;
  }

  /** Foreign code makes prompts too: one that it cannot make is left out. Throws what is no such failure, and after many in a row. */
  #skipUnmade(cause: unknown): void {
    if (!(cause instanceof RerollError) || cause.code !== "PROMPT_FAILED") throw cause;
    this.#report.addDroppedPrompt();
    this.#parts.onDroppedPrompt?.(cause.message);
    if (++this.#numUnmade >= MAX_UNMADE_PROMPTS) throw noneMade(this.#numUnmade, cause);
  }

  #addGroup(plan: GroupPlan): void {
    const { groupSize, extraSamples = 0, maxFailures = groupSize } = this.#parts.options;
    const sizes = { groupSize, extraSamples, maxFailures, hasGreedy: this.#parts.runGreedy !== undefined };
    const run = new GroupRun(plan, sizes, this.#parts.seed, (id, stage) => this.#tell(id, stage));
    this.#running.set(run.id, run);
    this.#numRunning[plan.domain]!++;
    this.#startable.add(run);
    this.#numGroupsStarted++;
  }

  /** What somebody waits for may always start: it is of the newest weights. Beyond that, as the admission says. */
  #hasRoomForGroup(): boolean {
    const { ready, running, isOpen } = this.#counts;
    const counts = {
      accepted: this.#numDelivered + this.#ready.size,
      running: this.#running.size,
      wanted: numMissing(this.#wanted, ready, isOpen),
    };
    const numOnTheWay = (domain: number) => ready(domain) + running(domain);
    return numMissing(this.#wanted, numOnTheWay, isOpen) > 0 || this.#admission.room(counts, this.#version) > 0;
  }

  async #runSample(run: GroupRun, { queuedAtMs, isGreedy, ...task }: SampleTask, signal: AbortSignal): Promise<void> {
    this.#numInFlight++;
    const { clock, runEpisode, runGreedy } = this.#parts;
    const onStage = (stage: EpisodeStage) => {
      if (stage === "generating") {
        this.#unfit = null;
        run.noteReply(task.id, this.#version);
      }
      this.#tell(task.id, stage);
    };
    const control = { signal, gate: this.#gate, onStage };
    const play = isGreedy && runGreedy !== undefined ? runGreedy : runEpisode;
    const trajectory = await runSample(play, { queuedMs: clock() - queuedAtMs, ...task }, control, clock);
    this.#numInFlight--;
    this.#finishSample(run, trajectory);
    this.#pump();
  }

  #finishSample(run: GroupRun, trajectory: Trajectory): void {
    const { end } = trajectory;
    if (end.kind === "failed" && end.error.code === "PROMPT_TOO_LONG") {
      this.#dropPrompt(run, trajectory.id, end.error);
      return;
    }
    this.#tell(trajectory.id, end.kind === "failed" || end.kind === "aborted" ? end.kind : "complete");
    this.#report.addEnd(trajectory);
    run.finish(trajectory);
    if (end.kind === "failed") {
      const hopeless = this.#failures.add(trajectory, this.#numGroupsStarted);
      if (hopeless !== null) this.#fail(hopeless);
    } else if (end.kind !== "aborted") this.#failures.reset();
    if (!this.#running.has(run.id)) return;
    if (run.isComplete || run.isGivenUp) {
      this.#running.delete(run.id);
      this.#numRunning[run.plan.domain]!--;
    } else {
      this.#startable.add(run);
    }
    if (run.isComplete) this.#admit(run);
    else if (run.isGivenUp) this.#report.addGivenUp();
  }

  /** Its group was never there: nothing was sampled, and nothing is scored. */
  #dropPrompt(run: GroupRun, sampleId: string, error: RerollError): void {
    this.#tell(sampleId, "filtered");
    if (this.#cancel((one) => one === run).length === 0) return;
    const { prompt } = run.plan;
    this.#report.addDroppedPrompt();
    this.#parts.onDroppedPrompt?.(error.message);
    if (this.#unfit === null) return;
    // A prompt that comes again: the data has gone round, and nothing in it fits.
    const hasGoneRound = this.#unfit.has(prompt.id);
    if (hasGoneRound || this.#unfit.add(prompt.id).size >= MAX_UNFIT_PROMPTS)
      this.#fail(nothingFits(this.#unfit.size, error));
  }

  #admit(run: GroupRun): void {
    const { filter, maxFilteredFactor = 10, maxStaleness = Infinity } = this.#parts.options;
    const group = run.group();
    const reason = filter?.(group) ?? null;
    if (reason !== null) {
      this.#tellAll([group], "filtered");
      this.#report.addFiltered(group, reason);
      const isStarved = ++this.#numFiltered > maxFilteredFactor * this.#lastAsked;
      if (isStarved) this.#fail(nothingUseful(this.#numFiltered, reason));
    } else if (this.#step - run.oldestVersion > maxStaleness) {
      this.#dropStale(run.plan, group);
    } else {
      this.#ready.add({ plan: run.plan, group, oldestVersion: run.oldestVersion });
      this.#checkEnough();
    }
  }

  /**
   * Starts the prompt again: if it were left out for good, prompts that take long would be trained on less than others.
   */
  #dropStale(plan: GroupPlan, group: TrajectoryGroup): void {
    this.#tellAll([group], "stale");
    this.#report.addStale();
    this.#prompts.giveBack([plan]);
  }

  #checkEnough(): void {
    const { ready, isOpen } = this.#counts;
    if (this.#wanted !== null && numMissing(this.#wanted, ready, isOpen) <= 0) this.#deliver(this.#wanted);
  }

  /** Ends the wait if nothing runs and nothing can start, since there will be no more groups. */
  #checkEnd(): void {
    const isOpen = this.#shares.some((_, domain) => this.#prompts.isOpen(domain));
    if (this.#wanted === null || this.#running.size > 0 || isOpen) return;
    if (this.#unfit !== null && this.#unfit.size > 0) this.#fail(nothingFits(this.#unfit.size));
    else this.#deliver(this.#wanted);
  }

  #deliver({ numGroups, quotas, owed, resolve }: Wanted): void {
    const groups = this.#ready.take(numGroups, quotas);
    this.#tellAll(groups, "delivered");
    this.#wanted = null;
    this.#owed = owed;
    this.#numDelivered += groups.length;
    this.#numFiltered = 0;
    this.#settleRest();
    const report = this.#report.take();
    // Together and in order, so that what a source learns, and so gives next, does not depend on timing.
    const seen = [...groups, ...report.filtered.map(({ group }) => group)];
    for (const group of seen.sort((a, b) => Number(a.id) - Number(b.id))) this.#prompts.record(group);
    resolve({ groups, report, metrics: rolloutMetrics(groups, report, this.#step) });
    this.#pump();
  }

  /** Rejects the `take` that is waiting, or the next one. */
  #fail(cause: unknown): void {
    this.#failures.restart();
    this.#numGroupsStarted = 0;
    this.#numFiltered = 0;
    this.#numUnmade = 0;
    if (this.#wanted === null) {
      this.#failure ??= { cause };
      return;
    }
    const { reject } = this.#wanted;
    this.#wanted = null;
    this.#failure = null;
    this.#settleRest();
    reject(cause);
  }

  #settleRest(): void {
    const { rest = "restart" } = this.#parts.options;
    if (rest === "hold") this.#gate.close();
    if (rest === "restart") this.#cancelRunning();
  }

  /** Ends all groups that run. Their prompts start again, before new ones. */
  #cancelRunning(): void {
    this.#prompts.giveBack(this.#cancel(() => true).map(({ plan }) => plan));
  }

  /** Ends running groups, and returns them in the order of their prompts. */
  #cancel(isCanceled: (run: GroupRun) => boolean): readonly GroupRun[] {
    const runs = [...this.#running.values()].filter(isCanceled).sort((a, b) => a.plan.index - b.plan.index);
    for (const run of runs) {
      run.abort();
      this.#running.delete(run.id);
      this.#startable.delete(run);
      this.#numRunning[run.plan.domain]!--;
    }
    return runs;
  }

  #tellAll(groups: readonly TrajectoryGroup[], stage: SampleStage): void {
    for (const { trajectories, greedy } of groups) {
      for (const { id } of [...(greedy === undefined ? [] : [greedy]), ...trajectories]) this.#tell(id, stage);
    }
  }

  #tell(sampleId: string, stage: SampleStage): number {
    const atMs = this.#parts.clock();
    this.#parts.onEvent?.({ sampleId, stage, atMs });
    return atMs;
  }
}

interface Wanted extends DomainQuotas {
  readonly numGroups: number;
  readonly resolve: (rollout: Rollout) => void;
  readonly reject: (reason: unknown) => void;
}

interface SavedPosition {
  readonly numDelivered: number;
  readonly owed: readonly number[];
  readonly prompts: JsonValue;
}

function expectCount(key: string, count: number): void {
  if (Number.isSafeInteger(count) && count > 0) return;
  throw new RerollError("INVALID_ARGUMENT", `${key} must be a whole number above 0: got ${count}.`, { [key]: count });
}

function closed(): RerollError {
  return new RerollError("CLOSED", "The rollout is closed. Make a new scheduler to go on.");
}

function neverFresh(step: number, version: number, maxStaleness: number): RerollError {
  return new RerollError(
    "INVALID_ARGUMENT",
    `New tokens are already too old: they are drawn with the weights of step ${version}, ${step} steps are done, and maxStaleness is ${maxStaleness}. Publish weights more often, or raise maxStaleness to ${step - version}.`,
    { step, version, maxStaleness },
  );
}

function nothingFits(count: number, last?: RerollError): RerollError {
  return new RerollError(
    "PROMPT_TOO_LONG",
    `None of ${count} prompts fits the context${last === undefined ? "" : `; the last one: ${last.message}`} Raise rollout.contextLength, or use shorter prompts.`,
    { count },
  );
}

function noneMade(count: number, last: RerollError): RerollError {
  return new RerollError(
    "PROMPT_FAILED",
    `${count} prompts in a row could not be made, the last one with: ${last.message}`,
    { ...last.details, count },
    { cause: last },
  );
}

function nothingUseful(count: number, reason: string): RerollError {
  return new RerollError(
    "ROLLOUT_STARVED",
    `${count} groups were dropped in one rollout, the last one for "${reason}". The task is too easy or too hard for this policy: change its difficulty, raise the group size, or switch the filter off.`,
    { count, reason },
  );
}

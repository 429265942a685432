/**
 * From prompts to scored groups, at the grain of one sample.
 *
 * Samples start while there is room, are scored the moment they end, and nobody waits for the slowest: groups that are complete
 * pass the filter and are ready; dropped ones are refilled; when enough are there the rest is ended, held, or goes on.
 *
 * Waits for: `take` for ready groups. Freed by: groups that complete, the end of all sources, the signal, or an error that says why
 * nothing useful comes. With nothing extra asked for, the groups of a seed do not depend on timing.
 */
import type { PromptSource } from "../data/prompt-source.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";
import type { Trajectory, TrajectoryGroup } from "../flow/trajectory.ts";
import { type Admission, admitWanted } from "./admission.ts";
import { DomainQuotas } from "./domain-quotas.ts";
import type { EpisodeStage, RunEpisode } from "./episode.ts";
import { Gate } from "./gate.ts";
import type { GroupFilter } from "./group-filter.ts";
import { GroupRun, type SampleTask } from "./group-run.ts";
import { ReportBuilder, type Rollout, rolloutMetrics } from "./rollout-report.ts";

export interface SchedulerParts {
  readonly runEpisode: RunEpisode;
  /** One, or one per domain with the share of delivered groups that it gets. */
  readonly sources: readonly DomainSource[];
  readonly options: SchedulerOptions;
  readonly seed: number;
  readonly clock: Clock;
  /** Told of every step in the life of every sample. */
  readonly onEvent?: (event: SampleEvent) => void;
}

export interface DomainSource {
  readonly share: number;
  readonly source: PromptSource;
}

export interface SchedulerOptions {
  /** Trajectories per prompt. */
  readonly groupSize: number;
  /** Samples that run at once. */
  readonly maxInFlight: number;
  /** Samples started beyond `groupSize`; the first to end well are taken. Default 0. */
  readonly extraSamples?: number;
  /** Failed samples of a group that are replaced before it is given up. Default: `groupSize`. */
  readonly maxFailures?: number;
  /** Default: as many groups as are asked for. */
  readonly admission?: Admission;
  /** Default: every group is kept. */
  readonly filter?: GroupFilter;
  /** Filtered groups per asked one after which `take` gives up. Default 10. */
  readonly maxFilteredFactor?: number;
  /**
   * What happens to running groups once enough are ready: ended and started again from their prompts in the next take (the
   * default), held where they are and continued under newer weights (partial rollouts), or left running (async).
   */
  readonly rest?: "restart" | "hold" | "continue";
  /** Ready groups with tokens older than this many versions are dropped. Default: none are. */
  readonly maxStaleness?: number;
}

export interface SampleEvent {
  readonly sampleId: string;
  readonly stage: "queued" | EpisodeStage | "complete" | "failed" | "aborted" | "filtered" | "delivered";
  readonly atMs: number;
}

/** Failures without a single sample that ended well, after which a run cannot be doing anything useful. */
const MAX_FAILURES_IN_A_ROW = 256;

export class RolloutScheduler {
  readonly #parts: SchedulerParts;
  readonly #admission: Admission;
  readonly #gate = new Gate();
  readonly #running = new Map<string, GroupRun>();
  /** Running groups with samples that have not started. */
  readonly #startable = new Set<GroupRun>();
  readonly #ready: ReadyGroup[] = [];
  /** Prompts that start before new ones are drawn. */
  readonly #restarts: { readonly domain: number; readonly prompt: Prompt }[] = [];
  readonly #endings = new Set<Promise<void>>();
  readonly #report = new ReportBuilder();
  readonly #isOver: boolean[];
  #quotas: DomainQuotas;
  #wanted: Wanted | null = null;
  #nextIndex = 0;
  #numDelivered = 0;
  #numInFlight = 0;
  #failuresInARow = 0;
  #version = 0;
  #isPumping = false;
  /** Set while pumping: what was found to be full or empty may not be so any more. */
  #hasChanged = false;
  #isClosed = false;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
    this.#admission = parts.options.admission ?? admitWanted();
    this.#quotas = new DomainQuotas(parts.sources.map(({ share }) => share));
    this.#isOver = parts.sources.map(() => false);
  }

  /** Weights that new tokens are drawn with. Decides how far rollout may run ahead. */
  setVersion(version: number): void {
    this.#version = version;
    this.#dropStale();
    void this.#pump();
  }

  /** Waits until this many useful groups are there. Fewer only when the sources are at their end. */
  async take(numGroups: number, signal: AbortSignal): Promise<Rollout> {
    if (this.#wanted !== null) throw new RerollError("BUSY", "RolloutScheduler.take is already waiting for groups.");
    signal.throwIfAborted();
    this.#gate.open();
    const { wanted, isEnough } = this.#want(numGroups);
    const onAbort = () => wanted.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    void this.#pump();
    this.#checkEnough();
    try {
      await isEnough;
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#wanted = null;
      this.#settleRest();
    }
    return this.#deliver(wanted);
  }

  #want(numGroups: number): { readonly wanted: Wanted; readonly isEnough: Promise<void> } {
    let settle: Pick<Wanted, "resolve" | "reject"> | undefined;
    const isEnough = new Promise<void>((resolve, reject) => {
      settle = { resolve, reject };
    });
    const wanted = { numGroups, quotas: this.#quotas.next(numGroups), ...settle! };
    this.#wanted = wanted;
    return { wanted, isEnough };
  }

  /** Prompts of groups that are not delivered yet, and where the sources stand: enough to go on after a restart. */
  position(): JsonValue {
    const pending = [...this.#ready.map(({ run }) => run), ...this.#running.values()].map(({ plan }) => plan);
    const inOrder = pending.sort((a, b) => a.index - b.index);
    return {
      nextIndex: this.#nextIndex,
      numDelivered: this.#numDelivered,
      owed: [...this.#quotas.owed],
      pending: [...inOrder.map(({ domain, prompt }) => ({ domain, prompt })), ...this.#restarts].map(
        (entry) => entry as unknown as JsonValue,
      ),
      sources: this.#parts.sources.map(({ source }) => source.position()),
    };
  }

  async restore(position: JsonValue): Promise<void> {
    const saved = position as unknown as SavedPosition;
    this.#nextIndex = saved.nextIndex;
    this.#numDelivered = saved.numDelivered;
    this.#quotas = new DomainQuotas(
      this.#parts.sources.map(({ share }) => share),
      saved.owed,
    );
    this.#restarts.push(...saved.pending);
    await Promise.all(this.#parts.sources.map(({ source }, i) => source.restore(saved.sources[i]!)));
  }

  /** Ends everything that runs, and waits until it has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wanted?.reject(new RerollError("CLOSED", "The rollout was closed while groups were being waited for."));
    for (const run of this.#running.values()) run.abort();
    this.#running.clear();
    this.#gate.open();
    while (this.#endings.size > 0) await Promise.all(this.#endings);
  }

  /** Starts samples while there is room for them. One at a time; called whenever something has changed. */
  async #pump(): Promise<void> {
    this.#hasChanged = true;
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#hasChanged && !this.#isClosed) {
        this.#hasChanged = false;
        while (this.#hasRoom() && (this.#startWaiting() || (await this.#startGroup()))) {}
      }
      this.#checkEnd();
    } catch (cause) {
      this.#wanted?.reject(cause);
    } finally {
      this.#isPumping = false;
    }
  }

  #hasRoom(): boolean {
    return !this.#isClosed && this.#gate.isOpen && this.#numInFlight < this.#parts.options.maxInFlight;
  }

  /** Starts one sample of a group that is already running. */
  #startWaiting(): boolean {
    for (const run of this.#startable) {
      const next = run.start();
      if (next === undefined) {
        this.#startable.delete(run);
        continue;
      }
      const ending = this.#runSample(run, next.task, next.signal).finally(() => this.#endings.delete(ending));
      this.#endings.add(ending);
      return true;
    }
    return false;
  }

  async #startGroup(): Promise<boolean> {
    const counts = {
      accepted: this.#numDelivered + this.#ready.length,
      running: this.#running.size,
      wanted: Math.max(0, (this.#wanted?.numGroups ?? 0) - this.#ready.length),
    };
    if (this.#admission.room(counts, this.#version) <= 0) return false;
    const next = this.#restarts.shift() ?? (await this.#drawPrompt());
    if (next === undefined || this.#isClosed) return false;
    const { groupSize, extraSamples = 0, maxFailures = groupSize } = this.#parts.options;
    const plan = { index: this.#nextIndex++, ...next };
    const run = new GroupRun(plan, { groupSize, extraSamples, maxFailures }, this.#parts.seed, this.#parts.clock());
    this.#running.set(run.id, run);
    this.#startable.add(run);
    return true;
  }

  async #drawPrompt(): Promise<{ domain: number; prompt: Prompt } | undefined> {
    const domain = this.#neediestDomain();
    if (domain === undefined) return undefined;
    const [prompt] = await this.#parts.sources[domain]!.source.next(1);
    if (prompt !== undefined) return { domain, prompt };
    this.#isOver[domain] = true;
    return this.#drawPrompt();
  }

  /** The domain that is furthest behind: its quota where groups are waited for, else its share. */
  #neediestDomain(): number | undefined {
    const lacking = [...this.#lacking()];
    for (const run of this.#running.values()) lacking[run.plan.domain]!--;
    const { sources } = this.#parts;
    const need = (domain: number) =>
      this.#wanted === null ? lacking[domain]! / sources[domain]!.share : lacking[domain]!;
    const open = sources.map((_, domain) => domain).filter((domain) => !this.#isOver[domain]);
    return open.sort((a, b) => need(b) - need(a) || a - b)[0];
  }

  /** Groups of each domain that are wanted and not ready; below 0 where more are ready than wanted. */
  #lacking(): readonly number[] {
    const lacking = this.#parts.sources.map((_, domain) => this.#wanted?.quotas[domain] ?? 0);
    for (const { run } of this.#ready) lacking[run.plan.domain]!--;
    return lacking;
  }

  async #runSample(run: GroupRun, task: SampleTask, signal: AbortSignal): Promise<void> {
    this.#numInFlight++;
    const { clock, runEpisode } = this.#parts;
    const trajectory = await runEpisode(
      { ...task, queuedMs: clock() - run.startedMs },
      { signal, gate: this.#gate, onStage: (stage) => this.#tell(task.id, stage) },
    );
    this.#numInFlight--;
    this.#finishSample(run, trajectory);
    void this.#pump();
  }

  #finishSample(run: GroupRun, trajectory: Trajectory): void {
    const { kind } = trajectory.end;
    this.#tell(trajectory.id, kind === "failed" || kind === "aborted" ? kind : "complete");
    this.#report.addEnd(trajectory);
    if (kind === "failed") this.#failuresInARow++;
    else if (kind !== "aborted") this.#failuresInARow = 0;
    if (trajectory.end.kind === "failed" && this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) {
      this.#wanted?.reject(everythingFails(this.#failuresInARow, trajectory.end.error));
    }
    const wasRunning = this.#running.has(run.id);
    run.finish(trajectory);
    this.#startable.add(run);
    if (!wasRunning || !(run.isComplete || run.isGivenUp)) return;
    this.#running.delete(run.id);
    if (run.isComplete) this.#admit(run);
    else this.#report.addGivenUp();
  }

  #admit(run: GroupRun): void {
    const { filter, maxFilteredFactor = 10 } = this.#parts.options;
    const group = run.group();
    const reason = filter?.(group) ?? null;
    if (reason === null) {
      this.#ready.push({ run, group });
      this.#dropStale();
      return;
    }
    for (const { id } of group.trajectories) this.#tell(id, "filtered");
    this.#report.addFiltered(group, reason);
    const limit = maxFilteredFactor * (this.#wanted?.numGroups ?? Infinity);
    if (this.#report.numFiltered > limit) this.#wanted?.reject(nothingUseful(this.#report.numFiltered, reason));
  }

  #checkEnough(): void {
    const isMet = this.#lacking().every((count, domain) => count <= 0 || this.#isOver[domain]);
    if (isMet && this.#wanted !== null && this.#ready.length >= this.#wanted.numGroups) this.#wanted.resolve();
  }

  /** Nothing runs and nothing can start: what is there is all there will be. */
  #checkEnd(): void {
    if (this.#running.size === 0 && this.#restarts.length === 0 && this.#isOver.every((isOver) => isOver))
      this.#wanted?.resolve();
  }

  #dropStale(): void {
    const { maxStaleness = Infinity } = this.#parts.options;
    const isFresh = ({ group }: ReadyGroup) => this.#version - oldestVersion(group) <= maxStaleness;
    const fresh = this.#ready.filter(isFresh);
    for (let i = fresh.length; i < this.#ready.length; i++) this.#report.addStale();
    this.#ready.splice(0, this.#ready.length, ...fresh);
    this.#checkEnough();
  }

  #settleRest(): void {
    const { rest = "restart" } = this.#parts.options;
    if (rest === "hold") this.#gate.close();
    if (rest !== "restart") return;
    const runs = [...this.#running.values()].sort((a, b) => a.plan.index - b.plan.index);
    this.#running.clear();
    this.#startable.clear();
    for (const run of runs) {
      run.abort();
      this.#restarts.push({ domain: run.plan.domain, prompt: run.plan.prompt });
    }
  }

  /** @param quotas per domain; what is missing of one that has ended is made up by the others */
  #deliver({ numGroups, quotas }: Wanted): Rollout {
    const inOrder = this.#ready.toSorted((a, b) => a.run.plan.index - b.run.plan.index);
    const left = [...quotas];
    const due = inOrder.filter(({ run }) => left[run.plan.domain]!-- > 0);
    const others = inOrder.filter((entry) => !due.includes(entry)).slice(0, numGroups - due.length);
    const taken = new Set([...due, ...others]);
    this.#ready.splice(0, this.#ready.length, ...inOrder.filter((entry) => !taken.has(entry)));
    const groups = inOrder.filter((entry) => taken.has(entry)).map(({ group }) => group);
    this.#numDelivered += groups.length;
    for (const group of groups) for (const { id } of group.trajectories) this.#tell(id, "delivered");
    const report = this.#report.take();
    void this.#pump();
    return { groups, report, metrics: rolloutMetrics(groups, report, this.#version) };
  }

  #tell(sampleId: string, stage: SampleEvent["stage"]): void {
    this.#parts.onEvent?.({ sampleId, stage, atMs: this.#parts.clock() });
  }
}

interface ReadyGroup {
  readonly run: GroupRun;
  readonly group: TrajectoryGroup;
}

interface Wanted {
  readonly numGroups: number;
  /** Per domain; they add up to `numGroups`. */
  readonly quotas: readonly number[];
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

interface SavedPosition {
  readonly nextIndex: number;
  readonly numDelivered: number;
  readonly owed: readonly number[];
  readonly pending: readonly { readonly domain: number; readonly prompt: Prompt }[];
  readonly sources: readonly JsonValue[];
}

function everythingFails(count: number, error: RerollError): RerollError {
  return new RerollError(
    "ROLLOUT_FAILING",
    `The last ${count} samples all failed, the last one with: ${error.message} Nothing can be learned from this; correct the environment or the reward.`,
    { count },
    { cause: error },
  );
}

function nothingUseful(count: number, reason: string): RerollError {
  return new RerollError(
    "ROLLOUT_STARVED",
    `${count} groups were dropped in one rollout, the last one for "${reason}". The task is too easy or too hard for this policy: change its difficulty, raise the group size, or switch the filter off.`,
    { count, reason },
  );
}

function oldestVersion({ trajectories }: TrajectoryGroup): number {
  let oldest = Infinity;
  for (const { turns } of trajectories) {
    for (const { reply } of turns) for (const version of reply.versions) oldest = Math.min(oldest, version);
  }
  return oldest;
}

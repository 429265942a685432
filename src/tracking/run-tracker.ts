/**
 * The one object that a run tells what happens; folder, console and sinks hear it from here.
 *
 * In: metrics of a step, trajectories, events of samples, stages of the loop. Out: files, a terminal, other services. It adds what it
 * can tell from time alone (idle shares, throughput) and says when something is wrong. A run waits for its own folder only.
 */
import { redact } from "../errors/redact.ts";
import { redactText } from "../errors/redact-text.ts";
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { SampleEvent } from "../flow/sample-event.ts";
import type { WorkerFacts, WorkLog } from "../flow/worker-facts.ts";
import { type ConsoleOptions, type ConsoleView, openConsole } from "./console.ts";
import { type ConsoleState, startState, withRecord, withWarning } from "./console-state.ts";
import { type HealthLimits, HealthMonitor } from "./health.ts";
import type { MetricSink, OpenSink } from "./metric-sink.ts";
import { renderStep, renderValidation } from "./render-console.ts";
import { runClock } from "./run-clock.ts";
import type { RunFolder } from "./run-folder.ts";
import type { MetricKind, MetricRecord, RunStatus } from "./run-record.ts";
import { type LoopStage, SpanRecorder } from "./span-recorder.ts";
import type { RecordedRollout } from "./trajectory-record.ts";

/** What a run tells while it goes on. A run that nobody watches gets the `silentTracker`. */
export interface RunTracker {
  /**
   * Records the metrics of a step. Training and supervised steps end a step of the timeline; names of validation metrics are
   * prefixed with `validation/`.
   */
  log(step: number, kind: MetricKind, metrics: Metrics): void;
  /** How many groups of a step's rollout it wants to know everything about: the first ones, 0 for none. */
  recordedGroups(step: number): number;
  /** The trajectories of a rollout, with what training saw of them. */
  recordRollout(step: number, kind: MetricKind, rollout: RecordedRollout): void;
  /** A sample entered a stage, at a time of the tracker's clock. */
  sampleEvent(event: SampleEvent): void;
  /** Runs a stage of the loop and puts it on the timeline. */
  span<Result>(stage: LoopStage, action: () => Promise<Result>): Promise<Result>;
  /** Told what single workers do. */
  readonly work: WorkLog;
  /** The workers of the run, what they host and hold, as they are now. */
  setWorkers(workers: readonly WorkerFacts[]): void;
  /** Something that a person should know. Each text is said once. */
  warn(code: string, text: string, link?: string): void;
  /** A line for the log and the terminal. */
  note(text: string): void;
  /** Resolves when everything so far would survive the process. */
  flush(): Promise<void>;
}

/** A tracker with the folder, terminal and sinks it writes to, in the hands of the one who opened it. */
interface OpenRunTracker extends RunTracker {
  setStatus(status: RunStatus, error?: string): Promise<void>;
  /** Writes what is left and says how it went. A run that is still called running is then interrupted. */
  close(): Promise<void>;
}

/** Hears everything and keeps nothing. */
export const silentTracker: RunTracker = {
  log() {},
  recordedGroups: () => 0,
  recordRollout() {},
  sampleEvent() {},
  span: (_, action) => action(),
  work: { begin() {}, end() {} },
  setWorkers() {},
  warn() {},
  note() {},
  flush: async () => {},
};

/** Everything a tracker needs. */
export interface TrackerParts {
  readonly folder: RunFolder;
  /** The resolved config. Sinks get it without secrets. */
  readonly config: unknown;
  /** The step that the run goes on after. Default 0. */
  readonly startStep?: number;
  /** Supervised steps before the first one. Default 0. */
  readonly numWarmSteps?: number;
  readonly limits?: HealthLimits;
  /** How the terminal shows the run; null for no terminal. */
  readonly console?: ConsoleOptions | null;
  readonly sinks?: readonly OpenSink[];
  /** The clock of the rollout too, so that spans lie on one axis. Default `runClock`. */
  readonly clock?: Clock;
  /** Called when the metrics of a training or supervised step are recorded. */
  readonly onStep?: () => void;
}

/** Starts to track a run whose folder is open. Closing the tracker closes the folder. */
export function openRunTracker(parts: TrackerParts): OpenRunTracker {
  return new Tracker(parts);
}

class Tracker implements OpenRunTracker {
  readonly #folder: RunFolder;
  readonly #clock: Clock;
  readonly #timeline: SpanRecorder;
  readonly #health: HealthMonitor;
  readonly #console: ConsoleView | null;
  readonly #sinks: readonly MetricSink[];
  readonly #onStep: () => void;
  readonly #said = new Set<string>();
  #trajectories: Promise<void> = Promise.resolve();
  #state: ConsoleState;

  constructor(parts: TrackerParts) {
    const {
      folder,
      config,
      startStep = 0,
      numWarmSteps = 0,
      limits,
      console = {},
      sinks = [],
      clock = runClock,
      onStep = () => {},
    } = parts;
    const { info, path } = folder;
    this.#folder = folder;
    this.#clock = clock;
    this.#onStep = onStep;
    this.#timeline = new SpanRecorder(clock());
    this.#health = new HealthMonitor(limits);
    this.#state = startState(
      { name: info.name, folder: path, startStep, numSteps: info.numSteps, numWarmSteps },
      clock(),
    );
    const view = () => ({ ...this.#state, activities: this.#timeline.activities() });
    this.#console = console && openConsole(view, clock, console);
    const warn = (text: string) => this.warn("sink", text);
    this.#sinks = sinks.map((open) => open({ info, folder: path, config: redact(config), startStep, warn }));
  }

  log(step: number, kind: MetricKind, metrics: Metrics): void {
    if (kind === "validation") {
      const named = Object.entries(metrics).map(([name, value]) => [
        name.startsWith("validation/") ? name : `validation/${name}`,
        value,
      ]);
      this.#record({ step, timeMs: this.#clock(), kind, metrics: Object.fromEntries(named) });
      return;
    }
    const nowMs = this.#clock();
    const { spans, metrics: times, busyMs } = this.#timeline.endStep(step, nowMs);
    for (const span of spans) this.#folder.appendSpan(span);
    const stepMs = times["time/step_ms"]!;
    const all = { ...metrics, ...times, ...throughput(metrics, { ...busyMs, stepMs }) };
    this.#record({ step, timeMs: nowMs, kind, metrics: all });
    for (const { code, text, link } of this.#health.add(all)) this.#warnAt(nowMs, code, text, link);
    this.#onStep();
  }

  recordedGroups(step: number): number {
    return this.#folder.recordedGroups(step);
  }

  recordRollout(step: number, kind: MetricKind, rollout: RecordedRollout): void {
    if (kind !== "train") return;
    // One after the other. The run goes on without a record of what it saw, but not silently.
    this.#trajectories = this.#trajectories
      .then(() => this.#folder.writeTrajectories(step, rollout))
      .catch((cause: unknown) => this.warn("trajectories", String(cause)));
  }

  sampleEvent(event: SampleEvent): void {
    this.#timeline.addEvent(event);
  }

  async span<Result>(stage: LoopStage, action: () => Promise<Result>): Promise<Result> {
    this.#timeline.beginStage(stage, this.#clock());
    try {
      return await action();
    } finally {
      this.#timeline.endStage(stage, this.#clock());
    }
  }

  readonly work: WorkLog = {
    begin: (worker, stage) => this.#timeline.beginWork(worker, stage, this.#clock()),
    end: (worker, stage) => this.#timeline.endWork(worker, stage, this.#clock()),
  };

  setWorkers(workers: readonly WorkerFacts[]): void {
    // The next flush rejects with it, and ends the run.
    this.#folder.setWorkers(workers).catch(() => {});
  }

  warn(code: string, given: string, link?: string): void {
    const text = redactText(given);
    if (this.#said.has(text)) return;
    this.#said.add(text);
    this.#warnAt(this.#clock(), code, text, link ?? null);
  }

  note(given: string): void {
    const text = redactText(given);
    this.#folder.appendLog(text);
    this.#console?.note(text);
  }

  async setStatus(status: RunStatus, reason?: string): Promise<void> {
    const error = reason === undefined ? undefined : redactText(reason);
    const endedAt = status === "running" ? null : new Date(this.#clock()).toISOString();
    this.#state = { ...this.#state, status, error: error ?? null };
    // First: the log may be what cannot be written.
    await this.#folder.setInfo({ status, error: error ?? null, endedAt });
    this.#folder.appendLog(error === undefined ? status : `${status}: ${error}`);
  }

  async flush(): Promise<void> {
    await this.#trajectories;
    await this.#folder.flush();
  }

  async close(): Promise<void> {
    await this.#trajectories;
    if (this.#state.status === "running") await this.setStatus("interrupted");
    await Promise.all(this.#sinks.map((sink) => sink.close(this.#state.status)));
    try {
      await this.#folder.close();
    } finally {
      this.#console?.close();
    }
  }

  #record(record: MetricRecord): void {
    this.#folder.appendMetrics(record);
    for (const sink of this.#sinks) sink.log(record);
    this.#state = withRecord(this.#state, record);
    const isValidation = record.kind === "validation";
    const line = isValidation ? renderValidation(record.step, record.metrics) : renderStep(this.#state);
    this.#folder.appendLog(line);
    if (isValidation) this.#console?.note(line);
    else this.#console?.step(line);
  }

  #warnAt(timeMs: number, code: string, text: string, link: string | null): void {
    const warning = { step: this.#state.step, timeMs, code, text, link };
    this.#state = withWarning(this.#state, warning);
    this.#folder.appendWarning(warning);
    const line = `warning: ${text}${link === null ? "" : ` See ${link}.`}`;
    this.#folder.appendLog(line);
    this.#console?.step(line);
  }
}

/** Tokens per second, where both tokens and time are known. */
function throughput(
  metrics: Metrics,
  { engine, trainer, stepMs }: { readonly engine: number; readonly trainer: number; readonly stepMs: number },
): Metrics {
  const replied = (metrics["rollout/reply_tokens"] ?? 0) * (metrics["rollout/trajectories"] ?? 0);
  const trained = metrics["experience/tokens"] ?? metrics["supervised/tokens"] ?? 0;
  const rates = [
    ["throughput/generate", replied, engine],
    ["throughput/train", trained, trainer],
    ["throughput/step", trained, stepMs],
  ] as const;
  return Object.fromEntries(
    rates.flatMap(([name, tokens, ms]) => (tokens > 0 && ms > 0 ? [[name, (1000 * tokens) / ms]] : [])),
  );
}

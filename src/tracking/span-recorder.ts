/**
 * Who did what, when: a timeline of few spans out of many small events.
 *
 * In: the stages of every sample, and the stages of the loop. Out, at the end of each step: the stretches in which each worker was
 * busy, and how much of the step it was idle. A worker that does many things at once is busy while it does at least one.
 */
import type { Metrics } from "../flow/metrics.ts";
import type { SampleEvent } from "../flow/sample-event.ts";
import type { WorkStage } from "../flow/worker-facts.ts";
import { type SpanRecord, type Worker, workers } from "./run-record.ts";

/** The stages of a loop, which run one after the other or two at a time. */
export type LoopStage = "rollout" | "train" | "sync" | "validate" | "checkpoint";

/** One step of the timeline. */
interface TimelineStep {
  readonly spans: readonly SpanRecord[];
  /** `idle/<worker>`, `time/<stage>_ms` and `time/step_ms`. */
  readonly metrics: Metrics;
  /** Milliseconds in which each worker was busy. */
  readonly busyMs: Readonly<Record<Worker, number>>;
}

/** What a worker is doing right now: how many things, and since when. */
export interface Activity {
  readonly stage: string;
  readonly count: number;
  readonly sinceMs: number;
}

/** The stages in which someone works for a sample. In all others it waits or is over. */
const sampleStages: Readonly<Record<string, Worker>> = {
  generating: "engine",
  environment: "environments",
  scoring: "rewards",
};

/** Spans of one lane and step that are kept; the smallest gaps between more of them are closed. */
const MAX_SPANS = 64;

/** Records from one step to the next. Events must come in order of time. */
export class SpanRecorder {
  readonly #stageOf = new Map<string, string>();
  readonly #lanes = new Map<string, Lane>();
  #stepStartMs: number;

  constructor(nowMs: number) {
    this.#stepStartMs = nowMs;
  }

  addEvent({ sampleId, stage, atMs }: SampleEvent): void {
    const before = this.#stageOf.get(sampleId);
    if (before === stage) return;
    if (before !== undefined) this.#lane(sampleStages[before]!, before).end(atMs);
    const worker = sampleStages[stage];
    if (worker === undefined) {
      this.#stageOf.delete(sampleId);
    } else {
      this.#stageOf.set(sampleId, stage);
      this.#lane(worker, stage).begin(atMs);
    }
  }

  beginStage(stage: LoopStage, atMs: number): void {
    this.#lane(workerOf(stage), stage).begin(atMs);
  }

  endStage(stage: LoopStage, atMs: number): void {
    this.#lane(workerOf(stage), stage).end(atMs);
  }

  /** A single worker begins something: it has a lane of its own beside that of its kind. */
  beginWork(worker: string, stage: WorkStage, atMs: number): void {
    this.#lane(worker, stage).begin(atMs);
  }

  endWork(worker: string, stage: WorkStage, atMs: number): void {
    this.#lane(worker, stage).end(atMs);
  }

  /** What each worker is doing now. Idle workers are left out. */
  activities(): ReadonlyMap<Worker, Activity> {
    const busy = workers.flatMap((worker) => {
      const lane = this.#lanesOf(worker).findLast(({ count }) => count > 0);
      return lane === undefined ? [] : [[worker, lane] as const];
    });
    return new Map(busy.map(([worker, { stage, count, sinceMs }]) => [worker, { stage, count, sinceMs }]));
  }

  /** Ends a step. Spans that are still under way are split in two. */
  endStep(step: number, atMs: number): TimelineStep {
    const lengthMs = atMs - this.#stepStartMs;
    this.#stepStartMs = atMs;
    const busyMs = { engine: 0, environments: 0, rewards: 0, trainer: 0, loop: 0 };
    const spans: SpanRecord[] = [];
    const metrics: Record<string, number> = { "time/step_ms": lengthMs };
    for (const worker of workers) {
      const lanes = this.#lanesOf(worker);
      if (lanes.length === 0) continue;
      const taken = lanes.map((lane) => ({ stage: lane.stage, intervals: lane.take(atMs) }));
      busyMs[worker] = lengthOf(union(taken.flatMap(({ intervals }) => intervals)));
      metrics[`idle/${worker}`] = lengthMs <= 0 ? 0 : Math.max(0, 1 - busyMs[worker] / lengthMs);
      for (const { stage, intervals } of taken) {
        if (!(stage in sampleStages)) metrics[`time/${stage}_ms`] = lengthOf(intervals);
        for (const [startMs, endMs] of coarsen(intervals)) spans.push({ worker, stage, startMs, endMs, step });
      }
    }
    const kinds: readonly string[] = workers;
    for (const lane of [...this.#lanes.values()].filter(({ worker }) => !kinds.includes(worker))) {
      for (const [startMs, endMs] of coarsen(lane.take(atMs)))
        spans.push({ worker: lane.worker, stage: lane.stage, startMs, endMs, step });
    }
    return { spans, metrics, busyMs };
  }

  #lanesOf(worker: string): readonly Lane[] {
    return [...this.#lanes.values()].filter((lane) => lane.worker === worker);
  }

  #lane(worker: string, stage: string): Lane {
    const key = `${worker} ${stage}`;
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const lane = new Lane(worker, stage);
    this.#lanes.set(key, lane);
    return lane;
  }
}

type Interval = readonly [startMs: number, endMs: number];

/** The stretches in which at least one thing of a kind was under way. */
class Lane {
  readonly worker: string;
  readonly stage: string;
  count = 0;
  sinceMs = 0;
  #intervals: Interval[] = [];

  constructor(worker: string, stage: string) {
    this.worker = worker;
    this.stage = stage;
  }

  begin(atMs: number): void {
    if (this.count++ === 0) this.sinceMs = atMs;
  }

  end(atMs: number): void {
    if (this.count === 0 || --this.count > 0) return;
    const last = this.#intervals.at(-1);
    // A stage that is left and re-entered at the same moment was never left.
    if (last?.[1] === this.sinceMs) this.#intervals[this.#intervals.length - 1] = [last[0], atMs];
    else if (atMs > this.sinceMs) this.#intervals.push([this.sinceMs, atMs]);
  }

  take(atMs: number): readonly Interval[] {
    const intervals = this.#intervals;
    this.#intervals = [];
    if (this.count === 0) return intervals;
    const open: Interval = [this.sinceMs, atMs];
    this.sinceMs = atMs;
    return [...intervals, open];
  }
}

/** Training is the trainer's; the rest is what the loop itself waits for. */
function workerOf(stage: LoopStage): Worker {
  return stage === "train" ? "trainer" : "loop";
}

function lengthOf(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, [startMs, endMs]) => sum + endMs - startMs, 0);
}

function union(intervals: readonly Interval[]): readonly Interval[] {
  const joined: Interval[] = [];
  for (const [startMs, endMs] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last !== undefined && startMs <= last[1]) joined[joined.length - 1] = [last[0], Math.max(last[1], endMs)];
    else joined.push([startMs, endMs]);
  }
  return joined;
}

/** At most `MAX_SPANS` of these intervals, which are in order and apart: the smallest gaps are closed. */
function coarsen(intervals: readonly Interval[]): readonly Interval[] {
  if (intervals.length <= MAX_SPANS) return intervals;
  const gaps = intervals.slice(1).map(([startMs], i) => ({ i: i + 1, gapMs: startMs - intervals[i]![1] }));
  const widest = gaps.sort((a, b) => b.gapMs - a.gapMs).slice(0, MAX_SPANS - 1);
  const starts = [0, ...widest.map(({ i }) => i).sort((a, b) => a - b)];
  return starts.map((start, i) => [intervals[start]![0], intervals[(starts[i + 1] ?? intervals.length) - 1]![1]]);
}

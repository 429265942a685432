/**
 * The timeline of one run, ready to be drawn.
 *
 * In: the lines of `spans.jsonl` as they come. Out: the spans of a window, where those too close to be told apart are joined, and
 * the part of the window in which each worker was idle, which is exact.
 */
import { join } from "node:path";
import { z } from "zod";
import type { WorkerFacts } from "../flow/worker-facts.ts";
import { runFiles, type SpanRecord, workers } from "../tracking/run-record.ts";
import type { SpansAnswer } from "./answers.ts";
import { GrowingFile } from "./growing-file.ts";

const spanSchema = z.object({
  worker: z.string().max(200),
  stage: z.string(),
  startMs: z.number(),
  endMs: z.number(),
  step: z.number(),
});

/** A stretch of the timeline, and its width on the screen in pixels. */
interface SpanWindow {
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
  readonly width: number;
}

/** The timeline of one run, growing with its file. */
export class SpanColumns {
  readonly #lanes = new Map<string, SpanRecord[]>();
  #startMs = Number.POSITIVE_INFINITY;
  #endMs = Number.NEGATIVE_INFINITY;
  readonly file: GrowingFile;

  constructor(folder: string) {
    this.file = new GrowingFile(join(folder, runFiles.spans), {
      take: (json) => this.#take(json),
      onReset: () => {
        this.#lanes.clear();
        this.#startMs = Number.POSITIVE_INFINITY;
        this.#endMs = Number.NEGATIVE_INFINITY;
      },
    });
  }

  /** @param facts the single workers, in the order in which they are shown below the kinds */
  window(
    { fromMs = this.#startMs, toMs = this.#endMs, width }: SpanWindow,
    facts: readonly WorkerFacts[] = [],
  ): SpansAnswer {
    if (this.#lanes.size === 0) return { range: null, spans: [], idle: [], workers: facts };
    const gapMs = (toMs - fromMs) / width;
    const inside = [...this.#lanes.values()].map((lane) =>
      lane.filter(({ startMs, endMs }) => endMs >= fromMs && startMs <= toMs),
    );
    const timed = new Set([...this.#lanes.values()].flatMap(([first]) => first?.worker ?? []));
    const kinds = workers.filter((worker) => timed.has(worker));
    const seen = [...new Set<string>([...kinds, ...facts.map(({ name }) => name), ...timed])];
    return {
      range: [this.#startMs, this.#endMs],
      spans: inside.flatMap((lane) => joinClose(lane, gapMs)),
      idle: seen.map((worker) => ({ worker, share: idleShare(inside.flat(), worker, fromMs, toMs) })),
      workers: facts,
    };
  }

  #take(json: unknown): void {
    const { data: span } = spanSchema.safeParse(json);
    if (span === undefined) return;
    const lane = this.#lanes.get(`${span.worker} ${span.stage}`);
    if (lane === undefined) this.#lanes.set(`${span.worker} ${span.stage}`, [span]);
    else lane.push(span);
    this.#startMs = Math.min(this.#startMs, span.startMs);
    this.#endMs = Math.max(this.#endMs, span.endMs);
  }
}

/** Spans of one lane in the order of their starts, joined where less than `gapMs` lies between them. */
export function joinClose(lane: readonly SpanRecord[], gapMs: number): readonly SpanRecord[] {
  const joined: SpanRecord[] = [];
  for (const span of [...lane].sort((a, b) => a.startMs - b.startMs)) {
    const last = joined.at(-1);
    const isClose = last !== undefined && span.startMs - last.endMs < gapMs;
    // Long spans of two steps stay apart: a step is what one clicks on.
    const isShort = last !== undefined && (span.endMs - span.startMs < gapMs || last.step === span.step);
    if (isClose && isShort) joined[joined.length - 1] = { ...last, endMs: Math.max(last.endMs, span.endMs) };
    else joined.push(span);
  }
  return joined;
}

/** 1 minus the share of a window that the worker's spans cover; overlaps count once. */
export function idleShare(spans: readonly SpanRecord[], worker: string, fromMs: number, toMs: number): number {
  let busyMs = 0;
  let coveredMs = fromMs;
  for (const span of spans.filter((one) => one.worker === worker).sort((a, b) => a.startMs - b.startMs)) {
    const start = Math.max(span.startMs, coveredMs);
    const end = Math.min(span.endMs, toMs);
    if (end <= start) continue;
    busyMs += end - start;
    coveredMs = end;
  }
  return toMs > fromMs ? 1 - busyMs / (toMs - fromMs) : 0;
}

/** Times that several threads note in one piece of memory, on one clock. */
import { readFileSync } from "node:fs";

/** What is noted of each step, in the order in which it happens. */
export const MARKS = [
  "stepBegin",
  "rolloutBegin",
  "firstRequest",
  "lastRequest",
  "repliesSent",
  "rolloutEnd",
  "trainBegin",
  "batchTaken",
  "trainEnd",
  "syncEnd",
  "stepEnd",
] as const;

export type Mark = (typeof MARKS)[number];

export interface MarkMemory {
  /** Milliseconds of the wall, one number per mark. */
  readonly wall: Float64Array;
  /** Milliseconds of processor time of the thread that noted it. */
  readonly cpu: Float64Array;
}

export function markMemory(): MarkMemory {
  const memory = () => new Float64Array(new SharedArrayBuffer(8 * MARKS.length));
  return { wall: memory(), cpu: memory() };
}

export function note({ wall, cpu }: MarkMemory, mark: Mark): void {
  const index = MARKS.indexOf(mark);
  wall[index] = performance.timeOrigin + performance.now();
  cpu[index] = threadCpuMs();
}

/** Processor time of the calling thread; NaN where the system does not say. */
export function threadCpuMs(): number {
  try {
    return Number(readFileSync("/proc/thread-self/schedstat", "latin1").split(" ")[0]) / 1e6;
  } catch {
    return Number.NaN;
  }
}

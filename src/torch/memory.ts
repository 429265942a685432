/** The memory that tensors hold, and the number of threads that work on them. */
import { type MemoryStats, native } from "./binding.ts";

/** Current and peak bytes of CPU tensors in the process, and live tensor handles of this thread. */
export function memoryStats(): MemoryStats {
  return native.memoryStats();
}

/** Starts a new peak from what is live now. */
export function resetPeakMemory(): void {
  native.resetPeakMemory();
}

/** Threads that one operator may use. Default: the number of cores. */
export function setNumThreads(count: number): void {
  native.setNumThreads(count);
}

export function numThreads(): number {
  return native.numThreads();
}

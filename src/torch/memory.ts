/** The memory that tensors hold, and the number of threads that work on them. */
import { type MemoryStats, native } from "./binding.ts";
import { bytesOf } from "./dtype.ts";
import type { Tensor } from "./tensor.ts";

/** Current and peak bytes of CPU tensors in the process, and live tensor handles of this thread. */
export function memoryStats(): MemoryStats {
  return native.memoryStats();
}

/** Starts a new peak from what is live now. */
export function resetPeakMemory(): void {
  native.resetPeakMemory();
}

/** Gives memory that was freed back to the system, of all threads of the process. Takes milliseconds: for a thread that nobody waits for. */
export function trimMemory(): void {
  native.trimMemory();
}

/** Threads that one operator may use. Default: the number of cores. */
export function setNumThreads(count: number): void {
  native.setNumThreads(count);
}

export function numThreads(): number {
  return native.numThreads();
}

/** Bytes of these tensors, each counted by itself. */
export function bytesIn(tensors: Iterable<Tensor>): number {
  let sum = 0;
  for (const { numel, dtype } of tensors) sum += numel * bytesOf(dtype);
  return sum;
}

/** The most that this process has had on a device so far. */
export function devicePeakBytes(device: string): number {
  if (!device.startsWith("cuda")) return native.memoryStats().peakBytes;
  return native.cudaMemory(Number(device.split(":")[1] ?? 0)).peakBytes;
}

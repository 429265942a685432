/** The time of work on a GPU: recorded once and launched again and again, so that the host is not waited for, or launched as it is. */
import { CudaEvent, CudaGraph, cudaSynchronize } from "../../src/torch/cuda.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

const launches = 10;

/** Milliseconds of one run, by the median of three times ten launches. `run` is called twice: the first call compiles what it needs. */
export function recordedMs(run: () => Tensor): number {
  const graph = new CudaGraph();
  tensorScope(run);
  graph.capture(() => tensorScope(run)).dispose();
  const [start, end] = [new CudaEvent({ hasTiming: true }), new CudaEvent({ hasTiming: true })];
  graph.replay();
  const times = Array.from({ length: 3 }, () => {
    cudaSynchronize();
    start.record();
    for (let i = 0; i < launches; i++) graph.replay();
    end.record();
    cudaSynchronize();
    return end.elapsedSince(start) / launches;
  });
  for (const one of [graph, start, end]) one.dispose();
  return times.toSorted((a, b) => a - b)[1]!;
}

/** Milliseconds of one of so many runs, launched one after another behind one that is not counted. */
export function launchedMs(run: () => unknown, repeats: number): number {
  const [start, end] = [new CudaEvent({ hasTiming: true }), new CudaEvent({ hasTiming: true })];
  tensorScope(() => void run());
  start.record();
  for (let i = 0; i < repeats; i++) tensorScope(() => void run());
  end.record().synchronize();
  const ms = end.elapsedSince(start) / repeats;
  for (const one of [start, end]) one.dispose();
  return ms;
}

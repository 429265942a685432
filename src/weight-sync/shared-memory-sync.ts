/** Engine and trainer in one process: the engine copies the trainer's memory, behind its version barrier. */
import type { Clock } from "../flow/clock.ts";
import { bytesOf } from "../torch/dtype.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { WeightSync } from "./weight-sync.ts";

export interface SharedMemoryParts {
  /** Runs a function on the trainer's own weights, while no step runs. */
  readonly withWeights: <Result>(use: (weights: ReadonlyMap<string, Tensor>) => Promise<Result>) => Promise<Result>;
  readonly engines: readonly WeightTarget[];
  readonly clock: Clock;
}

/** A receiver of new weights: a local engine, in this thread or its own. */
export interface WeightTarget {
  updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void>;
}

export function createSharedMemorySync({ withWeights, engines, clock }: SharedMemoryParts): WeightSync {
  return {
    publish: (version) =>
      withWeights(async (weights) => {
        const startedMs = clock();
        await Promise.all(engines.map((engine) => engine.updateWeights(version, weights)));
        const numBytes = [...weights.values()].reduce((sum, { numel, dtype }) => sum + numel * bytesOf(dtype), 0);
        return { "sync/ms": clock() - startedMs, "sync/bytes": numBytes * engines.length };
      }),
  };
}

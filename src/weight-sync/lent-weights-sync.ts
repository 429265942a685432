/** Engine and trainer on one device: the engine reads the trainer's own parameters, so that only the version is told. */
import type { Clock } from "../flow/clock.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { WeightSync } from "./weight-sync.ts";

interface LentWeightsParts {
  /** Runs a function on the trainer's own parameters, while no step runs. */
  readonly withParameters: <Result>(
    use: (parameters: ReadonlyMap<string, Tensor>) => Promise<Result>,
  ) => Promise<Result>;
  readonly engines: readonly WeightBorrower[];
  readonly clock: Clock;
}

/** An engine that draws with weights of a trainer's, and that is held before they change. */
interface WeightBorrower {
  shareWeights(version: number, parameters: ReadonlyMap<string, Tensor>): Promise<void>;
}

export function createLentWeightsSync({ withParameters, engines, clock }: LentWeightsParts): WeightSync {
  return {
    publish: (version) =>
      withParameters(async (parameters) => {
        const startedMs = clock();
        await Promise.all(engines.map((engine) => engine.shareWeights(version, parameters)));
        return { "sync/ms": clock() - startedMs, "sync/bytes": 0 };
      }),
  };
}

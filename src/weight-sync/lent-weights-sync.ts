/**
 * Engine and trainer on one device: the engine reads the trainer's own parameters, so that only the version is told.
 *
 * An engine is lent the parameters once, since a trainer that lends them changes them where they are. Handing hundreds of tensors to another
 * thread takes longer than everything else of a step's publication.
 */
import type { Clock } from "../flow/clock.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { WeightSync } from "./weight-sync.ts";

interface LentWeightsParts {
  /** Runs a function on the trainer's own parameters, while no step runs. */
  readonly withParameters: (use: (parameters: ReadonlyMap<string, Tensor>) => Promise<void>) => Promise<void>;
  readonly engines: readonly WeightBorrower[];
  readonly clock: Clock;
}

/** An engine that draws with weights of a trainer's, and that is held before they change. */
export interface WeightBorrower {
  /** Whether it was lent the parameters of this trainer before. */
  isBorrowing(): boolean;
  shareWeights(version: number, parameters: ReadonlyMap<string, Tensor>): Promise<void>;
  /** The same once it has them. */
  renewWeights(version: number): Promise<void>;
}

export function createLentWeightsSync({ withParameters, engines, clock }: LentWeightsParts): WeightSync {
  return {
    publish: async (version) => {
      const startedMs = clock();
      const borrowing = engines.filter((engine) => engine.isBorrowing());
      const others = engines.filter((engine) => !borrowing.includes(engine));
      const share = async (parameters: ReadonlyMap<string, Tensor>) => {
        await Promise.all(others.map((engine) => engine.shareWeights(version, parameters)));
      };
      // At once: who borrows now may be lost, and opened again with weights of its own, while the others are lent theirs.
      await Promise.all([
        ...borrowing.map((engine) => engine.renewWeights(version)),
        ...(others.length > 0 ? [withParameters(share)] : []),
      ]);
      return { "sync/ms": clock() - startedMs, "sync/bytes": 0 };
    },
  };
}

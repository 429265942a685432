/** Publishing: a new version of the weights from the trainer to whatever samples with them. */
import type { Metrics } from "../flow/metrics.ts";

export interface WeightSync {
  /** Makes the trainer's weights version `version`. Tokens drawn from then on carry it. Resolves when all engines have it. */
  publish(version: number): Promise<Metrics>;
}

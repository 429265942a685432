/** How the ranks of data-parallel training agree during an update. Every rank calls each function, in the same order. */
import type { Denominators } from "../flow/batch-statistics.ts";

export interface TrainerRanks {
  /** The counts of all ranks, this one's among them. */
  gather(own: Denominators): Promise<readonly Denominators[]>;
  /** The sum of a number over all ranks. */
  sum(own: number): Promise<number>;
  /** Replaces every gradient by its sum over all ranks. */
  reduceGradients(): Promise<void>;
}

/**
 * How the ranks of data-parallel training agree. Every rank calls each function, in the same order.
 *
 * All ranks know the whole batch. Each measures and trains on its own rows; what was measured is gathered, so that every rank
 * scores the whole batch alike, and no number depends on how many ranks there are.
 */
import type { Tensor } from "../torch/tensor.ts";

export interface TrainerRanks {
  /** Which of them this is, from 0. */
  readonly rank: number;
  readonly numRanks: number;
  /** The tensors of all ranks, which must have one shape, in the order of ranks. The caller frees them. */
  gather(own: Tensor): Promise<readonly Tensor[]>;
  /** What all ranks say, in the order of ranks: plain data, for a few numbers and not for tensors. */
  exchange<Value>(own: Value): Promise<readonly Value[]>;
  /** Replaces every gradient by its sum over all ranks. */
  reduceGradients(): Promise<void>;
}

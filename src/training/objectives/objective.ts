/**
 * What a run on given data makes the model learn: the loss of some examples, and what has to be known for it. Runs in the trainer.
 *
 * A loss is a share of that of the whole batch: it divides by totals of the batch, so that shares add up and the cut into microbatches
 * and ranks changes nothing.
 */
import type { LossMetrics } from "../../flow/batch-statistics.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { TuningExample } from "../../flow/tuning-example.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { FileSink } from "../../models/formats/file-sink.ts";
import type { NamedParameters } from "../../torch/optim/parameter-group.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { PackedTokens } from "../token-rows.ts";

export interface Objective {
  /** The loss of some examples, and metrics that add up over microbatches and ranks. */
  readonly loss: (pass: ObjectivePass, totals: BatchTotals) => ObjectiveLoss;
  /**
   * Numbers of each example, one tensor [E] per name, that are measured once, before the first step, with the weights that the run starts
   * from or those of a reference. They become `numbers` of the example. Absent: nothing is measured.
   */
  readonly measure?: (pass: ObjectivePass) => Readonly<Record<string, Tensor>>;
  /**
   * Sequences of an example, from the first, that the loss reads; the others are for `batchMeans`, which reads no more than those.
   * Absent: all of them, for both.
   */
  readonly numLossSequences?: number;
  /** Means over the whole batch that every loss of it reads, measured before the update and without gradient. Absent: none. */
  readonly batchMeans?: (pass: ObjectivePass) => LossMetrics;
  /** Metrics that follow from the means of a whole batch. Absent: none. */
  readonly derive?: (means: Metrics) => Metrics;
  /** What is trained and saved beside the decoder, such as a head that scores. Absent: the decoder alone. */
  readonly extension?: ModelExtension;
}

/** Examples after a forward pass of the model. */
export interface ObjectivePass {
  readonly examples: readonly TuningExample[];
  /** All sequences of the examples in their order, a row each. */
  readonly packed: PackedTokens;
  /** The states of the packed tokens after the last layer. */
  readonly hidden_SD: Tensor;
  readonly model: CausalLm;
}

/** Counts of the whole batch, over all microbatches and ranks. */
export interface BatchTotals {
  readonly numExamples: number;
  /** Loss tokens. */
  readonly numTokens: number;
  /** Loss tokens of the examples' first sequences. */
  readonly numFirstTokens: number;
  /** What `batchMeans` found. */
  readonly means: Metrics;
}

interface ObjectiveLoss {
  /** This part's share of the loss of the batch; a tensor without dimensions. */
  readonly loss: Tensor;
  readonly metrics: LossMetrics;
}

/** Parameters beside the decoder's own, and how the two are written as one model. */
export interface ModelExtension {
  readonly parameters: NamedParameters;
  /** Writes the whole model, for other tools to load. */
  readonly saveModel: (folder: string, files: ReadonlyMap<string, Uint8Array>, sink: FileSink) => void;
  readonly dispose: () => void;
}

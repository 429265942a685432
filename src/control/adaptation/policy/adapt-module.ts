/**
 * The network that infers, from what the student has seen so far, what the privileged encoder knows.
 *
 * One call serves a single tick of a rollout and a whole sequence of training, so that both compute the same numbers: what it
 * remembers goes in and comes out as plain rows, and is forgotten where an episode begins.
 */
import type { InitializeOptions } from "../../../torch/nn/initialize.ts";
import type { Module } from "../../../torch/nn/module.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { HistoryGRU } from "./history-gru.ts";
import { HistoryMLP } from "./history-mlp.ts";

/** How the student looks back. */
export type AdaptModuleKind =
  /** The inputs of the last `history` ticks side by side; 1 is only the present. */
  | { readonly type: "mlp"; readonly history: number }
  /** A recurrent state over the whole episode. */
  | { readonly type: "gru" };

/** Inputs at every tick and what was remembered before the first. */
export interface AdaptSequence {
  readonly inputs_TND: Tensor;
  /** True at the first observation of an episode. */
  readonly isFirst_TN: Tensor;
  readonly carry_NC: Tensor;
}

/** Latents at every tick and what is remembered after the last. */
export interface AdaptPrediction {
  readonly latents_TNZ: Tensor;
  readonly carry_NC: Tensor;
}

/** What every adapt module can do. */
export interface AdaptModule extends Module {
  /** Numbers remembered per environment; 0 for one that only sees the present. */
  readonly carrySize: number;
  forward(sequence: AdaptSequence): AdaptPrediction;
}

/** The sizes of an adapt module, and how it starts. */
export interface AdaptModuleOptions extends InitializeOptions {
  readonly inputSize: number;
  readonly latentSize: number;
  /** Scale of the output's weight. */
  readonly outputGain: number;
}

/** Builds the module of a kind. */
export function createAdaptModule(kind: AdaptModuleKind, options: AdaptModuleOptions): AdaptModule {
  switch (kind.type) {
    case "mlp":
      return new HistoryMLP(kind.history, options);
    case "gru":
      return new HistoryGRU(options);
  }
}

/**
 * The network that infers the latent of the privileged encoder from what the student has seen so far.
 *
 * The same call serves a single tick of a rollout and a whole sequence in training, so that both compute the same numbers. The
 * memory goes in and comes out as plain rows, and is cleared where an episode begins.
 */
import type { InitializeOptions } from "../../../torch/nn/initialize.ts";
import type { Module } from "../../../torch/nn/module.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { HistoryGRU } from "./history-gru.ts";
import { HistoryMLP } from "./history-mlp.ts";

/** How an adapt module uses the past. */
export type AdaptModuleKind =
  /** An MLP over the inputs of the last `history` ticks, side by side; 1 is the present alone. */
  | { readonly type: "mlp"; readonly history: number }
  /** A recurrent network over the whole episode. */
  | { readonly type: "gru" };

/** The inputs at every tick, and the memory before the first. */
export interface AdaptSequence {
  readonly inputs_TND: Tensor;
  /** True at the first observation of an episode. */
  readonly isFirst_TN: Tensor;
  readonly carry_NC: Tensor;
}

/** The latents at every tick, and the memory after the last. */
export interface AdaptPrediction {
  readonly latents_TNZ: Tensor;
  readonly carry_NC: Tensor;
}

/** A network that infers latents tick by tick. */
export interface AdaptModule extends Module {
  /** Size of the memory per environment; 0 for a module that sees only the present. */
  readonly carrySize: number;
  forward(sequence: AdaptSequence): AdaptPrediction;
}

/** The sizes of an adapt module, and its initialization. */
export interface AdaptModuleOptions extends InitializeOptions {
  readonly inputSize: number;
  readonly latentSize: number;
  /** Gain of the output layer's weight. */
  readonly outputGain: number;
}

/** Builds an adapt module. */
export function createAdaptModule(kind: AdaptModuleKind, options: AdaptModuleOptions): AdaptModule {
  switch (kind.type) {
    case "mlp":
      return new HistoryMLP(kind.history, options);
    case "gru":
      return new HistoryGRU(options);
  }
}

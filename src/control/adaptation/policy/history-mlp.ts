/** An adapt module that sees the inputs of the last ticks side by side, with zeros from before the episode. */
import { RerollError } from "../../../errors/reroll-error.ts";
import { cat, stack } from "../../../torch/create.ts";
import { Module } from "../../../torch/nn/module.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import type { AdaptModule, AdaptModuleOptions, AdaptPrediction, AdaptSequence } from "./adapt-module.ts";
import { MishMLP } from "./mish-mlp.ts";

/** The memory is the inputs of the last `history - 1` ticks, the oldest first. */
export class HistoryMLP extends Module implements AdaptModule {
  readonly carrySize: number;
  readonly network: MishMLP;
  readonly #history: number;

  constructor(history: number, { inputSize, latentSize, ...options }: AdaptModuleOptions) {
    super();
    if (!Number.isSafeInteger(history) || history < 1) {
      throw new RerollError("INVALID_ARGUMENT", `history must be a whole number of ticks from 1 on: got ${history}.`);
    }
    this.#history = history;
    this.carrySize = (history - 1) * inputSize;
    const hidden = [latentSize, latentSize];
    this.network = new MishMLP({ ...options, inputSize: history * inputSize, hidden, outputSize: latentSize });
  }

  forward({ inputs_TND, isFirst_TN, carry_NC }: AdaptSequence): AdaptPrediction {
    if (this.#history === 1) return { latents_TNZ: this.network.forward(inputs_TND), carry_NC };
    const [T, , D] = [inputs_TND.size(0), inputs_TND.size(1), inputs_TND.size(2)];
    const windows: Tensor[] = [];
    let past_NC = carry_NC;
    for (let t = 0; t < T; t++) {
      const kept_NC = past_NC.maskedFill(isFirst_TN.select(0, t).unsqueeze(1), 0);
      const window_NW = cat([kept_NC, inputs_TND.select(0, t)], 1);
      windows.push(window_NW);
      past_NC = window_NW.slice(1, D);
    }
    return { latents_TNZ: this.network.forward(stack(windows)), carry_NC: past_NC.contiguous() };
  }
}

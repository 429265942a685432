/** An adapt module that remembers the whole episode in the state of a GRU. */
import { cat } from "../../../torch/create.ts";
import { GRU, type GRUState } from "../../../torch/nn/gru.ts";
import { LayerNorm } from "../../../torch/nn/layer-norm.ts";
import type { Linear } from "../../../torch/nn/linear.ts";
import { Module } from "../../../torch/nn/module.ts";
import { resetWhere } from "../../../torch/nn/reset-where.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import type { AdaptModule, AdaptModuleOptions, AdaptPrediction, AdaptSequence } from "./adapt-module.ts";
import { MishTrunk, orthogonalLinear } from "./mish-mlp.ts";

/** head(trunk(x) + norm(gru(trunk(x)))). The skip connection lets the present through unchanged. The memory is the hidden state. */
export class HistoryGRU extends Module implements AdaptModule {
  readonly carrySize: number;
  readonly trunk: MishTrunk;
  readonly gru: GRU;
  readonly norm: LayerNorm;
  readonly head: Linear;

  constructor({ inputSize, latentSize, outputGain, ...options }: AdaptModuleOptions) {
    super();
    this.carrySize = latentSize;
    this.trunk = new MishTrunk(inputSize, [latentSize], options);
    this.gru = new GRU({ ...options, inputSize: latentSize, hiddenSize: latentSize });
    this.norm = new LayerNorm(latentSize, options);
    this.head = orthogonalLinear(latentSize, latentSize, outputGain, options);
  }

  forward({ inputs_TND, isFirst_TN, carry_NC }: AdaptSequence): AdaptPrediction {
    const features_TND = this.trunk.forward(inputs_TND);
    const features_NTD = features_TND.transpose(0, 1);
    const outputs: Tensor[] = [];
    let state: GRUState = { hidden_LBD: carry_NC.unsqueeze(0) };
    for (const { start, end } of stretches(isFirst_TN)) {
      const { output_BTD, state: next } = this.gru.forward(
        features_NTD.slice(1, start, end),
        resetWhere(state, isFirst_TN.select(0, start)),
      );
      outputs.push(output_BTD);
      state = next;
    }
    const remembered_TND = this.norm.forward(cat(outputs, 1)).transpose(0, 1);
    return {
      latents_TNZ: this.head.forward(features_TND.add(remembered_TND)),
      carry_NC: state.hidden_LBD.select(0, 0),
    };
  }
}

/** Runs of ticks in which an episode begins at the first tick only: the GRU is called once for each. */
function stretches(isFirst_TN: Tensor): { readonly start: number; readonly end: number }[] {
  const T = isFirst_TN.size(0);
  if (T === 1) return [{ start: 0, end: 1 }];
  const numFirst_T = isFirst_TN.sum(1).toArray();
  const starts = numFirst_T.flatMap((count, t) => (t === 0 || count > 0 ? [t] : []));
  return starts.map((start, i) => ({ start, end: starts[i + 1] ?? T }));
}

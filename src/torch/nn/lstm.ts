/** Long short-term memory over sequences, with the state carried in and out. */
import { isGradEnabled } from "../autograd.ts";
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { Module, type Parameter } from "./module.ts";
import {
  createRecurrentWeights,
  cudnnModes,
  expectSequence,
  flattenForCudnn,
  type RecurrentOptions,
  type RecurrentSizes,
  type RecurrentWeightName,
  stateOrZeros,
} from "./recurrent-weights.ts";

/** The state that an LSTM carries from tick to tick, per layer and row. */
export type LSTMState = {
  readonly hidden_LBD: Tensor;
  readonly cell_LBD: Tensor;
};

/**
 * Parameters have PyTorch's names and shapes (gates in the order input, forget, cell, output), so its state loads.
 * On CUDA, cuDNN multiplies float32 in TF32, as in PyTorch: about three digits.
 */
export class LSTM extends Module {
  [name: RecurrentWeightName]: Parameter;
  readonly sizes: RecurrentSizes;
  // Private to the language: a list in a visible field would give every parameter a second name.
  readonly #weights: readonly Parameter[];

  constructor(options: RecurrentOptions) {
    super();
    const { inputSize, hiddenSize, numLayers = 1, hasBias = true } = options;
    this.sizes = { inputSize, hiddenSize, numLayers, hasBias };
    const weights = createRecurrentWeights(this.sizes, 4, options);
    for (const [name, weight] of weights) this[name] = weight;
    this.#weights = [...weights.values()];
  }

  /** Output of the top layer at every tick, and the state after the last. Starts from zeros without a state. */
  forward(input_BTD: Tensor, state?: LSTMState): { readonly output_BTD: Tensor; readonly state: LSTMState } {
    const { sizes } = this;
    const B = expectSequence("LSTM", input_BTD, sizes);
    const hidden_LBD = stateOrZeros("state.hidden", state?.hidden_LBD, sizes, input_BTD, B);
    const cell_LBD = stateOrZeros("state.cell", state?.cell_LBD, sizes, input_BTD, B);
    flattenForCudnn(this.#weights, cudnnModes.lstm, sizes);
    // cuDNN keeps what a backward pass needs only when told that it trains.
    const isTraining = isGradEnabled();
    const { hasBias, numLayers } = sizes;
    const [output_BTD, lastHidden_LBD, lastCell_LBD] = lstm(
      input_BTD,
      [hidden_LBD, cell_LBD],
      this.#weights,
      hasBias,
      numLayers,
      0,
      isTraining,
      false,
      true,
    );
    return { output_BTD, state: { hidden_LBD: lastHidden_LBD, cell_LBD: lastCell_LBD } };
  }
}

const lstm = op("aten::lstm.input", { isUnchecked: true });

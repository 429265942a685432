/**
 * What LSTM and GRU share: weights named and ordered as in PyTorch, the checks on what goes in, the layout cuDNN wants.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../autograd.ts";
import { zeros } from "../create.ts";
import { op } from "../operator.ts";
import { tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { createParameter, type InitializeOptions, type Initializer, initialize } from "./initialize.ts";
import type { Parameter } from "./module.ts";

/** The sizes of a recurrent network, and its initial weights. */
export interface RecurrentOptions extends InitializeOptions {
  readonly inputSize: number;
  readonly hiddenSize: number;
  /** Layers on top of each other. Default 1. */
  readonly numLayers?: number;
  /** Default true. */
  readonly hasBias?: boolean;
  /** Default uniform within 1 / sqrt(hiddenSize) for all weights and biases, as in PyTorch. */
  readonly initialWeight?: Initializer;
}

/** "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", and so on for every layer. */
export type RecurrentWeightName = `weight_${string}` | `bias_${string}`;

/** RecurrentOptions with the defaults filled in. */
export interface RecurrentSizes {
  readonly inputSize: number;
  readonly hiddenSize: number;
  readonly numLayers: number;
  readonly hasBias: boolean;
}

/** The weights of all layers, in the order that libtorch takes them. */
export function createRecurrentWeights(
  { inputSize, hiddenSize, numLayers, hasBias }: RecurrentSizes,
  numGates: number,
  options: RecurrentOptions,
): Map<RecurrentWeightName, Parameter> {
  const bound = 1 / Math.sqrt(hiddenSize);
  const { initialWeight = initialize.uniform(-bound, bound) } = options;
  const rows = numGates * hiddenSize;
  const weights = new Map<RecurrentWeightName, Parameter>();
  for (let layer = 0; layer < numLayers; layer++) {
    const columns = layer === 0 ? inputSize : hiddenSize;
    weights.set(`weight_ih_l${layer}`, createParameter([rows, columns], initialWeight, options));
    weights.set(`weight_hh_l${layer}`, createParameter([rows, hiddenSize], initialWeight, options));
    if (!hasBias) continue;
    weights.set(`bias_ih_l${layer}`, createParameter([rows], initialWeight, options));
    weights.set(`bias_hh_l${layer}`, createParameter([rows], initialWeight, options));
  }
  return weights;
}

/** Throws unless the input is [B, T, inputSize]; returns B. */
export function expectSequence(layer: string, input_BTD: Tensor, { inputSize }: RecurrentSizes): number {
  const { shape } = input_BTD;
  const [B, , D] = shape;
  if (shape.length === 3 && D === inputSize && B !== undefined) return B;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `${layer} got an input of shape [${shape.join(", ")}]. It must be [B, T, ${inputSize}], rows first; ` +
      "for one tick per call, unsqueeze dimension 1.",
  );
}

/** The state that was passed in, checked and contiguous, or zeros. */
export function stateOrZeros(
  name: string,
  state_LBD: Tensor | undefined,
  { numLayers, hiddenSize }: RecurrentSizes,
  like_BTD: Tensor,
  B: number,
): Tensor {
  const expected = [numLayers, B, hiddenSize];
  if (state_LBD === undefined) return zeros(expected, { dtype: like_BTD.dtype, device: like_BTD.device });
  const { shape } = state_LBD;
  if (shape.length === 3 && shape.every((size, i) => size === expected[i])) return state_LBD.contiguous();
  throw new RerollError(
    "SHAPE_MISMATCH",
    `${name} has shape [${shape.join(", ")}] but the input has ${B} rows. The state must be [L, B, hiddenSize] = ` +
      `[${expected.join(", ")}]: carry the state of the same rows, or leave it out to start from zeros.`,
  );
}

/** The numbers by which cuDNN knows its kinds of networks. */
export const cudnnModes = { lstm: 2, gru: 3 } as const;

/**
 * Moves CUDA weights into one buffer, as cuDNN wants them: it would copy them on every call otherwise. Does nothing when
 * they are there already. The parameters stay the same objects with other memory, so a stateDict taken before the first
 * forward pass on CUDA does not see later updates.
 */
export function flattenForCudnn(
  weights: readonly Parameter[],
  mode: number,
  { inputSize, hiddenSize, numLayers, hasBias }: RecurrentSizes,
): void {
  const first = weights[0]!;
  if (!first.device.startsWith("cuda") || first.storageAddress === weights.at(-1)!.storageAddress) return;
  const weightsPerLayer = hasBias ? 4 : 2;
  noGrad(() =>
    tensorScope(() => {
      if (!ops.wantsFlatWeights()) return;
      ops.flatten(weights, weightsPerLayer, inputSize, mode, hiddenSize, 0, numLayers, true, false);
    }),
  );
}

const ops = {
  wantsFlatWeights: op("aten::_use_cudnn_rnn_flatten_weight"),
  flatten: op("aten::_cudnn_rnn_flatten_weight"),
} as const;

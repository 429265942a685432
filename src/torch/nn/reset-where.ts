/** Forgetting between episodes: rows of one batch end at different ticks. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../tensor.ts";
import type { GRUState } from "./gru.ts";
import type { LSTMState } from "./lstm.ts";

/**
 * The state with zeros in the rows where an episode starts; other rows keep theirs, and their gradients.
 *
 * @example const { output_BTD, state: next } = lstm.forward(input_B1D, resetWhere(state, isStart_B));
 */
export function resetWhere(state: LSTMState, isStart_B: Tensor): LSTMState;
export function resetWhere(state: GRUState, isStart_B: Tensor): GRUState;
export function resetWhere(state: LSTMState | GRUState, isStart_B: Tensor): LSTMState | GRUState {
  const hidden_LBD = zeroStarts(state.hidden_LBD, isStart_B);
  return "cell_LBD" in state ? { hidden_LBD, cell_LBD: zeroStarts(state.cell_LBD, isStart_B) } : { hidden_LBD };
}

function zeroStarts(state_LBD: Tensor, isStart_B: Tensor): Tensor {
  const { shape } = isStart_B;
  const B = state_LBD.size(1);
  if (shape.length !== 1 || shape[0] !== B || isStart_B.dtype !== "bool") {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `isStart is ${isStart_B.dtype} of shape [${shape.join(", ")}] but the state has ${B} rows. ` +
        `It must be bool of shape [${B}]: true where a row begins a new episode.`,
    );
  }
  // Not a product with zero: a state that went to NaN must not outlive its episode.
  return state_LBD.maskedFill(isStart_B.view(1, B, 1), 0);
}

import { RerollError } from "../../../errors/reroll-error.ts";
import { arange, tensor } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import type { TokenLoss } from "../loss-output.ts";
import { type DistillationOptions, distillationLoss } from "./distillation.ts";

/**
 * Inputs of context distillation. The teacher saw a longer prompt, so the same reply begins later in its S positions.
 */
interface ContextDistillationInputs {
  /** Logits of the policy, which does not see the context, over the T tokens of the reply. */
  readonly policyLogits_BTV: Tensor;
  /** Logits of the teacher, often the same model, over all of its S positions. */
  readonly teacherLogits_BSV: Tensor;
  /** For each row, the teacher's position whose scores predict the first token of the reply. */
  readonly teacherStarts: readonly number[];
  readonly lossMask_BT: Tensor;
}

/**
 * The KL between the policy without a context and the teacher with it, at the tokens of the same reply.
 *
 * Moves instructions, examples or a long system prompt into the weights. Askell et al. 2021 (arXiv:2112.00861);
 * Snell et al. 2022 (arXiv:2209.15189).
 */
export function contextDistillationLoss(inputs: ContextDistillationInputs, options: DistillationOptions): TokenLoss {
  const { policyLogits_BTV, teacherLogits_BSV, teacherStarts, lossMask_BT } = inputs;
  const teacherLogits_BTV = replyPositions(teacherLogits_BSV, teacherStarts, policyLogits_BTV.size(1));
  return distillationLoss({ policyLogits_BTV, teacherLogits_BTV, lossMask_BT }, options);
}

/** Row b of the result holds positions starts[b], starts[b] + 1, ... of row b; past the end the last one is repeated. */
export function replyPositions(values_BSV: Tensor, starts: readonly number[], numTokens: number): Tensor {
  const [B = 0, S = 0, V = 0] = values_BSV.shape;
  expectStarts(starts, B, S);
  const { device } = values_BSV;
  const first_B1 = tensor([...starts], { dtype: "int64", device }).unsqueeze(1);
  const positions_BT = arange(0, numTokens, { device })
    .unsqueeze(0)
    .add(first_B1)
    .clamp(null, S - 1);
  return values_BSV.gather(1, positions_BT.unsqueeze(2).expand(B, numTokens, V));
}

function expectStarts(starts: readonly number[], B: number, S: number): void {
  const wrong = starts.findIndex((start) => !Number.isInteger(start) || start < 0 || start >= S);
  if (starts.length === B && wrong === -1) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    starts.length === B
      ? `teacherStarts[${wrong}] must be a position of the teacher in [0, ${S - 1}]: got ${starts[wrong]}.`
      : `teacherStarts has ${starts.length} entries for ${B} rows. It must name the first position of every row.`,
    { starts, B, S },
  );
}

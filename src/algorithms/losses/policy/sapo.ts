import type { Tensor } from "../../../torch/tensor.ts";
import { expectPositive } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import { anchorKl, logRatio, type PolicyLossInputs, policyTerms, tokenLoss } from "./policy-loss.ts";

interface SapoOptions {
  /** How fast the gate closes for tokens with A > 0. The paper uses 1. */
  readonly temperaturePositive: number;
  /**
   * How fast the gate closes for tokens with A <= 0; a little faster, since pushing tokens down is what destabilizes
   * training. The paper uses 1.05.
   */
  readonly temperatureNegative: number;
}

/**
 * -(4 / tau) sigmoid(tau (r - 1)) A, r = policy / anchor, tau by the sign of A.
 *
 * A smooth gate instead of a clip: at r = 1 the gradient is that of r A, and it fades on both sides. SAPO
 * (arXiv:2511.20347). The paper reduces with seq-mean-token-mean.
 */
export function sapoLoss(inputs: PolicyLossInputs, options: SapoOptions): TokenLoss {
  expectPositive("temperaturePositive", options.temperaturePositive);
  expectPositive("temperatureNegative", options.temperatureNegative);
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const ratio_BT = logRatio_BT.exp();
  const gate_BT = gate(ratio_BT, options.temperaturePositive).where(
    terms.advantages_BT.gt(0),
    gate(ratio_BT, options.temperatureNegative),
  );
  return tokenLoss(terms, gate_BT.neg().mul(terms.advantages_BT), anchorKl(terms, logRatio_BT));
}

function gate(ratio_BT: Tensor, temperature: number): Tensor {
  return ratio_BT
    .sub(1)
    .mul(temperature)
    .sigmoid()
    .mul(4 / temperature);
}

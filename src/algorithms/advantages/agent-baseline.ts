/** A running mean of each agent's rewards as its baseline, for self-play and games with several roles. */

import type { GroupKey } from "../../flow/token-batch.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectRange, expectRows } from "../expect-batch.ts";
import { expectKeys } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";

/** The baseline of each agent; an agent that is missing has baseline 0. Belongs in the checkpoint. */
export type AgentBaselines = ReadonlyMap<GroupKey, number>;

export interface AgentAdvantages {
  readonly advantages_B: Tensor;
  /** The baselines after these rows; those passed in are left as they were. */
  readonly baselines: AgentBaselines;
}

/**
 * A_i = r_i - b_agent, then b_agent = decay b_agent + (1 - decay) r_i, row by row in their order: a sample is never
 * compared with a baseline that includes it. In a zero-sum game the mean over a group is 0 whatever the policy does;
 * the mean of one role is not.
 *
 * Source: SPIRAL (role-conditioned advantage estimation), arXiv:2506.24119. Decay 0.95 is prime-rl's default.
 */
export function agentBaseline(
  rewards_B: Tensor,
  agentOf: readonly GroupKey[],
  baselines: AgentBaselines,
  { decay = 0.95 }: { readonly decay?: number } = {},
): AgentAdvantages {
  expectRows({ rewards_B });
  expectKeys("agentOf", agentOf, rewards_B.size(0));
  expectRange("decay", decay, 0, 1);
  const next = new Map(baselines);
  const advantages = Array.from(readFinite("rewards_B", rewards_B), (reward, row) => {
    const agent = agentOf[row]!;
    const baseline = next.get(agent) ?? 0;
    next.set(agent, decay * baseline + (1 - decay) * reward);
    return reward - baseline;
  });
  return { advantages_B: writeRows(advantages, rewards_B), baselines: next };
}

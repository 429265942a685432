/** What a reward sees, with everything a test does not care about filled in. */
import type { JsonValue, Prompt } from "../../src/flow/prompt.ts";
import type { RewardInput } from "../../src/rewards/reward.ts";

export function rewardInput(reply: string, truth: JsonValue = null, changes: Partial<Prompt> = {}): RewardInput {
  const messages = [{ role: "user", content: "What is it?" }];
  const prompt: Prompt = { id: "test/0", domain: "test", seed: 1, messages, truth, extra: {}, ...changes };
  return {
    prompt,
    reply,
    messages: [...prompt.messages, { role: "assistant", content: reply }],
    numReplyTokens: reply.length,
    isTruncated: false,
  };
}

/** A signal that never says anything. */
export const never = new AbortController().signal;

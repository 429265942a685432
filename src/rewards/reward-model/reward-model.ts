/**
 * A learned reward: the score that a reward model gives the last token of the rendered conversation.
 *
 * The forward pass runs on the model's device and on the thread that asks; requests that come within a few milliseconds
 * share one. For a large model put the scorer in a worker thread.
 */
import { z } from "zod";
import { encodeChat } from "../../chat/template/chat-template.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Reward, RewardDefinition, RewardInput } from "../reward.ts";
import { createBatchCollector } from "./batch-collector.ts";
import { loadRewardModel, type RewardModel } from "./load-reward-model.ts";
import { scoreConversations } from "./score-conversations.ts";

const options = z.strictObject({
  path: z.string().min(1).describe("Folder of the model, with its tokenizer."),
  device: z.string().default("cpu").describe("Device that the model runs on."),
  dtype: z
    .enum(["float32", "bfloat16", "float16"])
    .optional()
    .describe("Number format of the weights. Default: the one in config.json."),
  windowMs: z.number().nonnegative().default(5).describe("How long the first reply of a batch waits for others."),
  maxBatchTokens: z.number().int().positive().default(16_384).describe("Maximum number of tokens in one batch."),
});

export const rewardModel: RewardDefinition<typeof options> = {
  type: "reward-model",
  options,
  build: async ({ path, device, dtype, ...batching }) => {
    const model = await loadRewardModel(path, dtype === undefined ? { device } : { device, dtype });
    return createModelReward(model, batching);
  },
};

interface BatchingOptions {
  readonly windowMs: number;
  readonly maxBatchTokens: number;
}

/** The reward of a model that is already there; closing it frees the model. */
export function createModelReward(model: RewardModel, { windowMs, maxBatchTokens }: BatchingOptions): Reward {
  const collector = createBatchCollector<Int32Array, number>({
    windowMs,
    maxWeight: maxBatchTokens,
    weightOf: (ids) => ids.length,
    runBatch: (batch) => scoreConversations(model, batch),
  });
  return {
    name: "reward-model",
    cost: "model",
    score: async (input, signal) => ({ value: await collector.add(encode(model, input), signal) }),
    close: async () => {
      collector.flush();
      model.decoder.dispose();
      model.head.dispose();
    },
  };
}

function encode({ tokenizer, decoder }: RewardModel, { messages, prompt }: RewardInput): Int32Array {
  const ids = encodeChat(tokenizer, messages, prompt.tools === undefined ? {} : { tools: prompt.tools });
  const { maxPositions } = decoder.config;
  if (ids.length > 0 && ids.length <= maxPositions) return ids;
  throw new RerollError(
    "CONTEXT_OVERFLOW",
    `The conversation has ${ids.length} tokens; the reward model takes 1 to ${maxPositions}. Use one with a longer context, or shorten replies.`,
    { numTokens: ids.length, maxPositions },
  );
}

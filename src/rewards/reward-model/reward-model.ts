/**
 * A learned reward: the score that a reward model gives the last token of the rendered conversation.
 *
 * The model lives in a thread or process of its own, so that the event loop stays free while it computes; on a GPU, requests that come within a
 * few milliseconds share a forward pass. It has a tokenizer and a chat template of its own: it reads messages, not the policy's tokens. When its worker fails, every score after it fails with the reason.
 */
import { z } from "zod";
import type { RewardDefinition } from "../reward.ts";
import { startRewardModel } from "./start-reward-model.ts";

const options = z.strictObject({
  path: z.string().min(1).describe("Folder of the model, with its tokenizer."),
  device: z.string().default("cpu").describe("Device that the model runs on."),
  dtype: z
    .enum(["float32", "bfloat16", "float16"])
    .optional()
    .describe("Number format of the weights. Default: the one in config.json."),
  windowMs: z.number().nonnegative().default(5).describe("How long the first reply of a batch waits for others."),
  maxBatchTokens: z
    .number()
    .int()
    .positive()
    .default(16_384)
    .describe("Maximum number of tokens in one batch. On the CPU every conversation is scored by itself."),
});

export const rewardModel: RewardDefinition<typeof options> = {
  type: "reward-model",
  options,
  build: async ({ dtype, ...others }, { startModel = startRewardModel } = {}) => {
    const model = await startModel({ ...others, ...(dtype !== undefined && { dtype }) });
    return {
      name: "reward-model",
      cost: "model",
      score: async ({ messages, prompt }, signal) => ({
        value: await model.score(messages, prompt.tools ?? [], signal),
      }),
      close: () => model.close(),
    };
  },
};

/** Scores conversations with a reward model that is here, in batches of what is asked for within a few milliseconds. */
import { encodeChat } from "../../chat/template/chat-template.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { Device } from "../../torch/dtype.ts";
import { bytesIn, devicePeakBytes } from "../../torch/memory.ts";
import { createBatchCollector } from "./batch-collector.ts";
import type { RewardModel } from "./load-reward-model.ts";
import type { RewardModelHost } from "./reward-model-host.ts";
import { scoreConversations } from "./score-conversations.ts";

interface BatchingOptions {
  readonly windowMs: number;
  readonly maxBatchTokens: number;
}

/** The thread is busy during a forward pass. Closing it frees the model. */
export function createModelScorer(model: RewardModel, { windowMs, maxBatchTokens }: BatchingOptions): RewardModelHost {
  const { device } = model.decoder.embedding;
  let isAsleep = false;
  const move = (to: Device) => {
    for (const part of [model.decoder, model.head]) part.to({ device: to });
    isAsleep = to !== device;
  };
  const collector = createBatchCollector<Int32Array, number>({
    windowMs,
    maxWeight: maxBatchTokens,
    weightOf: (ids) => ids.length,
    runBatch: (batch) => {
      if (isAsleep) move(device);
      return scoreConversations(model, batch);
    },
  });
  return {
    score: async (messages, tools, signal) => collector.add(encode(model, messages, tools), signal),
    sleep: async () => {
      collector.flush();
      if (device !== "cpu" && !isAsleep) move("cpu");
    },
    memory: async () => ({
      roles: [
        {
          role: "reward model",
          bytes: bytesIn([...model.decoder.parameters(), ...model.head.parameters()]),
          isAsleep,
        },
      ],
      peakBytes: devicePeakBytes(device),
    }),
    close: async () => {
      collector.flush();
      model.decoder.dispose();
      model.head.dispose();
    },
  };
}

function encode(
  { tokenizer, decoder }: RewardModel,
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[],
): Int32Array {
  const ids = encodeChat(tokenizer, messages, tools.length === 0 ? {} : { tools });
  const { maxPositions } = decoder.config;
  if (ids.length > 0 && ids.length <= maxPositions) return ids;
  throw new RerollError(
    "CONTEXT_OVERFLOW",
    `The conversation has ${ids.length} tokens; the reward model takes 1 to ${maxPositions}. Use one with a longer context, or shorten replies.`,
    { numTokens: ids.length, maxPositions },
  );
}

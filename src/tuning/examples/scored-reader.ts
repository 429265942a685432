/**
 * Rows of reward models: conversations to score, each rendered as a whole, as a reward model sees them in a run.
 *
 * The one loss token of a sequence is its last, where the score is read.
 */
import { encodeChat } from "../../chat/template/chat-template.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { rowError } from "../../data/to-prompt.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { TuningSequence } from "../../flow/tuning-example.ts";
import type { ObjectiveChoice } from "../../training/objectives/table.ts";
import type { ExampleReader } from "./example-reader.ts";
import { pairFields, readNumber, readPair, readReply, replyFields } from "./preference-rows.ts";

type RewardModelChoice = Extract<ObjectiveChoice, { type: "reward-model" }>;

export function scoredReader({ loss, useMargins }: RewardModelChoice): ExampleReader {
  return loss === "regression" ? ratingReader() : comparisonReader(useMargins);
}

function comparisonReader(useMargins: boolean): ExampleReader {
  return {
    fields: pairFields,
    read: async (placed, { format, fields }) => {
      const { prompt, chosen, rejected, margin, tools } = readPair(placed, fields);
      if (useMargins && margin === null) {
        throw rowError(
          placed,
          "has no margin, and objective.useMargins is true: looked for margin, and for score_chosen and score_rejected",
        );
      }
      if (useMargins && margin !== null && margin < 0) {
        throw rowError(placed, `has a margin of ${margin}, which says that the chosen reply is the worse one`);
      }
      const sequences = [chosen, rejected].map((reply) => rendered(format.tokenizer, [...prompt, ...reply], tools));
      return [{ sequences, ...(useMargins && margin !== null && { numbers: { margin } }) }];
    },
  };
}

function ratingReader(): ExampleReader {
  return {
    fields: [...replyFields, "score"],
    read: async (placed, { format, fields }) => {
      const { prompt, reply, tools } = readReply(placed, fields);
      const score = readNumber(placed, fields.score ?? "score");
      return [{ sequences: [rendered(format.tokenizer, [...prompt, ...reply], tools)], numbers: { score } }];
    },
  };
}

function rendered(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[] | undefined,
): TuningSequence {
  const tokenIds = encodeChat(tokenizer, messages, tools && { tools });
  const lossMask = new Uint8Array(tokenIds.length);
  lossMask[tokenIds.length - 1] = 1;
  return { tokenIds, lossMask };
}

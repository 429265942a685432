/** POST /v1/chat/completions */
import type { FastifyInstance } from "fastify";
import { answerChat } from "./chat-call.ts";
import { createChatFormat } from "./chat-format.ts";
import { parseChatRequest } from "./chat-request.ts";
import type { ServerContext } from "./server-parts.ts";

export function addChatCompletionsRoute(app: FastifyInstance, context: ServerContext): void {
  app.post("/v1/chat/completions", async (request, reply) => {
    const chat = parseChatRequest(request.body);
    const dialect = {
      promptName: "messages",
      callPrefix: "call_",
      format: (extensions: object) =>
        createChatFormat({
          ...{ tokenizer: context.tokenizer, logprobs: chat.logprobs, extensions },
          id: `chatcmpl-${context.newId()}`,
          created: Math.floor(context.clock() / 1000),
          model: context.modelName,
          returnTokenIds: chat.fields.return_token_ids ?? false,
          includeUsage: chat.fields.stream_options?.include_usage ?? false,
        }),
    };
    await answerChat(context, chat, dialect, { request, reply });
    return reply;
  });
}

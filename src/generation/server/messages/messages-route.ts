/** POST /v1/messages and /v1/messages/count_tokens: Anthropic's API over the same conversations. */
import type { FastifyInstance } from "fastify";
import { answerChat, chatPrompt } from "../chat-call.ts";
import type { ServerContext } from "../server-parts.ts";
import { createMessagesFormat } from "./messages-format.ts";
import { parseCountRequest, parseMessagesRequest } from "./messages-request.ts";

export function addMessagesRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post("/v1/messages", async (request, reply) => {
    const dialect = {
      promptName: "messages",
      callPrefix: "toolu_",
      format: (extensions: object) =>
        createMessagesFormat({ id: `msg_${context.newId()}`, model: context.modelName, extensions }),
    };
    await answerChat(context, parseMessagesRequest(request.body), dialect, { request, reply });
    return reply;
  });
  app.post("/v1/messages/count_tokens", async ({ body }) => {
    const { promptIds } = await chatPrompt(context, parseCountRequest(body), undefined);
    return { input_tokens: promptIds.length };
  });
}

/** Whether a path belongs to Anthropic's API, whose errors have a shape of their own. */
export function isMessagesPath(url: string): boolean {
  return /\/v1\/messages(\/count_tokens)?(\?|$)/.test(url);
}

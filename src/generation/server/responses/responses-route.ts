/** POST /v1/responses, and what was answered: GET and DELETE /v1/responses/:id */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { RerollError } from "../../../errors/reroll-error.ts";
import type { ChatMessage } from "../../../flow/chat-message.ts";
import type { SampledTokens } from "../../generate.ts";
import { answerChat } from "../chat-call.ts";
import { chatLogprobs } from "../chat-format.ts";
import type { ServerContext } from "../server-parts.ts";
import { pathParameter, sessionIdOf } from "../session-id.ts";
import { inputMessages } from "./input-items.ts";
import type { OutputItem } from "./output-items.ts";
import { createResponsesFormat } from "./responses-format.ts";
import { parseResponsesRequest, type ResponsesRequest } from "./responses-request.ts";

export function addResponsesRoutes(app: FastifyInstance, context: ServerContext): void {
  const { responses } = context;
  app.post("/v1/responses", async (request, reply) => {
    const sessionId = sessionIdOf(request);
    const chat = parseResponsesRequest(request.body, responses, sessionId);
    const dialect = {
      promptName: "input",
      callPrefix: "call_",
      format: (extensions: object) => formatFor(context, chat, sessionId, extensions),
    };
    await answerChat(context, chat, dialect, { request, reply });
    return reply;
  });
  app.get("/v1/responses/:id", async (request) => {
    const found = responses.find(sessionIdOf(request), idOf(request));
    if (found === undefined) throw responseUnknown(idOf(request));
    return found.body;
  });
  app.delete("/v1/responses/:id", async (request) => {
    const id = idOf(request);
    if (!responses.delete(sessionIdOf(request), id)) throw responseUnknown(id);
    return { id, object: "response", deleted: true };
  });
}

function formatFor(
  context: ServerContext,
  { conversation, stores, logprobs, echo }: ResponsesRequest,
  sessionId: string | undefined,
  extensions: object,
) {
  const { tokenizer, responses } = context;
  const id = `resp_${context.newId()}`;
  const logprobsOf = (tokens: SampledTokens) => chatLogprobs(tokenizer, tokens).content;
  return createResponsesFormat({
    ...{ id, echo, extensions },
    created: Math.floor(context.clock() / 1000),
    model: context.modelName,
    ...(logprobs && { logprobsOf }),
    onAnswer(body, output) {
      if (!stores) return;
      responses.add(sessionId, { id, body, output, messages: [...conversation, ...replyMessages(output)] });
    },
  });
}

function replyMessages(output: readonly OutputItem[]): readonly ChatMessage[] {
  return inputMessages(
    output.map((item) => ({ ...item })),
    () => undefined,
  );
}

function idOf({ params }: FastifyRequest): string {
  return pathParameter(params, "id") ?? "";
}

function responseUnknown(id: string): RerollError {
  return new RerollError(
    "RESPONSE_UNKNOWN",
    `Response with id ${JSON.stringify(id)} not found: it was not stored, belongs to another session, or is one of the oldest and forgotten.`,
    { param: "id" },
  );
}

/** POST /v1/chat/completions */
import type { FastifyInstance } from "fastify";
import { buildChatPrompt } from "../../chat/chat-prompt.ts";
import { createChatFormat } from "./chat-format.ts";
import { type ChatRequest, parseChatRequest } from "./chat-request.ts";
import { checkLimits, roomFor, withCall } from "./generation-call.ts";
import { answer } from "./run-choices.ts";
import { checkModel, samplingOf } from "./sampling-request.ts";
import type { ServerContext } from "./server-parts.ts";
import type { CallPrompt, Session } from "./session.ts";
import { sessionIdOf } from "./session-id.ts";

export function addChatCompletionsRoute(app: FastifyInstance, context: ServerContext): void {
  app.post("/v1/chat/completions", async (request, reply) => {
    const chat = parseChatRequest(request.body);
    checkModel(chat.fields.model, context.modelName);
    const numChoices = checkLimits(context, 1, chat.fields);
    context.calls.admit(numChoices);
    await context.calls.run(reply.raw, async (signal) => {
      const sessionId = sessionIdOf(request);
      const session = sessionId === undefined ? undefined : context.sessions.open(sessionId);
      const prompt = await chatCallPrompt(context, chat, session);
      const room = roomFor(context, prompt.promptIds, "messages", session);
      // Rendering took a while: the engine may be full or paused by now.
      context.calls.admit(numChoices);
      await withCall(context, chatPlan(context, chat, session, prompt, room), (call) =>
        answer(context.engine, call, reply, signal),
      );
    });
    return reply;
  });
}

async function chatCallPrompt(
  context: ServerContext,
  { messages, tools, templateVariables }: ChatRequest,
  session: Session | undefined,
): Promise<CallPrompt> {
  const options = { addGenerationPrompt: true, variables: templateVariables, ...(tools && { tools }) };
  const limits = { sessionId: session?.id, maxTokens: context.engine.status().contextLength };
  const { promptIds, numSpliced, numChanged } = await buildChatPrompt(context, messages, options, limits);
  context.metrics.splicedReplies.add(numSpliced);
  context.metrics.changedReplies.add(numChanged);
  const hasHistory = messages.some((message) => message.role === "assistant");
  return { promptIds, hasHistory, hasChangedReplies: numChanged > 0 };
}

function chatPlan(
  context: ServerContext,
  chat: ChatRequest,
  session: Session | undefined,
  prompt: CallPrompt,
  room: number,
) {
  const { fields, readsToolCalls, numTopLogprobs, ignoredFields, logprobs } = chat;
  const { tokenizer, modelName } = context;
  return {
    ...{ fields, session, readsToolCalls, numTopLogprobs, ignoredFields },
    prompts: [prompt],
    samplingFor: () => samplingOf(fields, chat.maxTokens ?? room, context.samplingRules),
    formatWith: (extensions: object) =>
      createChatFormat({
        ...{ tokenizer, logprobs, extensions },
        id: `chatcmpl-${context.newId()}`,
        created: Math.floor(context.clock() / 1000),
        model: modelName,
        returnTokenIds: fields.return_token_ids ?? false,
        includeUsage: fields.stream_options?.include_usage ?? false,
      }),
  };
}

/**
 * A call that is a conversation, in whichever API it came: rendered, sampled, recorded and answered.
 *
 * In: messages as templates know them. All APIs are brought into this one form, so a reply that was given through one of
 * them keeps its tokens in the next prompt.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import { buildChatPrompt } from "../../chat/chat-prompt.ts";
import { replyEnds } from "../../chat/template/reply-end.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { toolCallFormatOf } from "../../chat/tool-calls/table.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { Constraint } from "../generate.ts";
import { checkLimits, roomFor, withCall } from "./generation-call.ts";
import type { ReplyFormat } from "./reply-format.ts";
import { answer } from "./run-choices.ts";
import { checkModel, type SamplingFields, type SamplingRules, samplingOf } from "./sampling-request.ts";
import type { ServerContext } from "./server-parts.ts";
import type { CallPrompt, Session } from "./session.ts";
import { sessionIdOf } from "./session-id.ts";

export interface ChatCall {
  readonly fields: SamplingFields;
  readonly messages: readonly ChatMessage[];
  /** Absent when there are none. */
  readonly tools: readonly ChatTool[] | undefined;
  /** Whether tool calls are read from the reply. With a tool choice of none they are text. */
  readonly readsToolCalls: boolean;
  /** Undefined: up to the end of the context. */
  readonly maxTokens: number | undefined;
  readonly numTopLogprobs: number;
  /** What the reply must look like; undefined for free text. */
  readonly constraint: Constraint | undefined;
  readonly templateVariables: Readonly<Record<string, unknown>>;
  readonly ignoredFields: readonly string[];
}

/** What differs between the APIs. */
interface ChatDialect {
  /** The field that holds the conversation, for messages. */
  readonly promptName: string;
  /** What the ids of tool calls begin with. */
  readonly callPrefix: string;
  format(extensions: object): ReplyFormat;
}

/** Answers a request. */
export async function answerChat(
  context: ServerContext,
  chat: ChatCall,
  dialect: ChatDialect,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<void> {
  checkModel(chat.fields.model, context);
  const numChoices = checkLimits(context, 1, chat.fields);
  context.calls.admit(numChoices);
  await context.calls.run(reply.raw, async (signal) => {
    const sessionId = sessionIdOf(request);
    const session = sessionId === undefined ? undefined : context.sessions.open(sessionId);
    const prompt = await chatPrompt(context, chat, session);
    const room = roomFor(context, prompt.promptIds, dialect.promptName, session);
    // Rendering took a while: the engine may be full or paused by now.
    context.calls.admit(numChoices);
    const { fields, numTopLogprobs, ignoredFields } = chat;
    const rules = rulesFor(context, chat);
    const { overrides, onOverruled } = rules;
    const { maxTokens: most = Infinity } = overrides;
    if (chat.maxTokens !== undefined && chat.maxTokens > most) onOverruled("max_tokens", chat.maxTokens, most);
    const plan = {
      ...{ fields, session, numTopLogprobs, ignoredFields },
      ...(chat.readsToolCalls && { newCallId: () => dialect.callPrefix + context.newId(), tools: chat.tools }),
      separatesThinking: true,
      prompts: [prompt],
      samplingFor: () =>
        samplingOf(fields, chat.maxTokens ?? room, rules, inFormatOf(context.tokenizer, chat.constraint)),
      formatWith: (extensions: object) => dialect.format(extensions),
    };
    await withCall(context, plan, (call) => answer(context.engine, call, reply, signal));
  });
}

/** Forced calls are written as the model writes them. */
function inFormatOf(tokenizer: Tokenizer, constraint: Constraint | undefined): Constraint | undefined {
  if (constraint === undefined || !("tools" in constraint)) return constraint;
  return { ...constraint, format: toolCallFormatOf(tokenizer) };
}

/** A constrained reply ends with the token that the template writes behind it, so that the next prompt extends it. */
function rulesFor({ samplingRules, tokenizer }: ServerContext, { constraint }: ChatCall): SamplingRules {
  return constraint === undefined ? samplingRules : { ...samplingRules, stopIds: replyEnds(tokenizer) };
}

/** The tokens of a conversation, earlier replies as they were sampled. */
export async function chatPrompt(
  context: ServerContext,
  { messages, tools, templateVariables }: Pick<ChatCall, "messages" | "tools" | "templateVariables">,
  session: Session | undefined,
): Promise<CallPrompt> {
  const options = { addGenerationPrompt: true, variables: templateVariables, ...(tools && { tools }) };
  const limits = { sessionId: session?.id, maxTokens: context.engine.status().contextLength };
  const { promptIds, numSpliced, numChanged } = await buildChatPrompt(context, messages, options, limits);
  context.metrics.splicedReplies.add(numSpliced);
  context.metrics.changedReplies.add(numChanged);
  const hasHistory = messages.some((message) => message.role === "assistant");
  return { promptIds, hasHistory, hasChangedReplies: numChanged > 0, chat: { messages, tools: tools ?? [] } };
}

/**
 * The steps that all routes that sample share: a session's call around the engine's choices, with everything recorded.
 *
 * In: prompts, and how the client wants its answer. Out: the call to run. The prefix check of each prompt is known before
 * the first token, so that it can go into the headers.
 */

import { promptKeyOf } from "../../chat/reply-index.ts";
import { ReplyReader } from "../../chat/reply-reader.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { Sampling } from "../generate.ts";
import { errorReplyOf, isOwnFault, requestError } from "./openai-errors.ts";
import type { Choice, ReplyFormat } from "./reply-format.ts";
import type { Call } from "./run-choices.ts";
import type { SamplingFields } from "./sampling-request.ts";
import type { ServerContext } from "./server-parts.ts";
import type { CallPrompt, PrefixOutcome, Session, SessionCall } from "./session.ts";

interface CallPlan {
  readonly fields: SamplingFields;
  readonly prompts: readonly CallPrompt[];
  readonly session: Session | undefined;
  /** Absent when tool calls are text like any other. */
  readonly newCallId?: (() => string) | undefined;
  readonly tools?: readonly ChatTool[] | undefined;
  /** Whether the answer has a place for thinking. */
  readonly separatesThinking?: boolean;
  readonly numTopLogprobs: number;
  readonly ignoredFields: readonly string[];
  /** How the tokens of this prompt are drawn. */
  samplingFor(prompt: CallPrompt): Sampling;
  formatWith(extensions: object): ReplyFormat;
}

/** Builds the call, runs `work` with it, and closes the session's books whatever happens. */
export async function withCall(
  context: ServerContext,
  plan: CallPlan,
  work: (call: Call) => Promise<void>,
): Promise<void> {
  const numChoices = plan.fields.n ?? 1;
  const sessionCalls: (SessionCall | undefined)[] = [];
  try {
    for (const prompt of plan.prompts) sessionCalls.push(plan.session?.begin(prompt, numChoices, context.clock));
    await work(buildCall(context, plan, sessionCalls));
  } finally {
    for (const sessionCall of sessionCalls) sessionCall?.end();
  }
}

/** How many replies a call asks for. Throws when the server does not give that many. */
export function checkLimits(context: ServerContext, numPrompts: number, fields: SamplingFields): number {
  const numChoices = (fields.n ?? 1) * numPrompts;
  if (numChoices > context.maxChoices) {
    throw requestError(
      "n",
      `n asks for ${numChoices} replies, and ${context.maxChoices} are allowed. Send several requests.`,
    );
  }
  return numChoices;
}

/** The tokens that a reply to this prompt may have. Throws in OpenAI's words when there are none. */
export function roomFor(
  context: ServerContext,
  promptIds: Int32Array,
  param: string,
  session: Session | undefined,
): number {
  const { contextLength } = context.engine.status();
  const { length } = promptIds;
  if (length < contextLength) return contextLength - length;
  session?.refuse("context");
  throw new RerollError(
    "CONTEXT_OVERFLOW",
    `This model's maximum context length is ${contextLength} tokens. However, your ${param} resulted in ${length === contextLength ? "" : "at least "}${length} tokens. Please reduce the length of the ${param}.`,
    { param, promptTokens: length, contextLength },
  );
}

function buildCall(context: ServerContext, plan: CallPlan, sessionCalls: readonly (SessionCall | undefined)[]): Call {
  const { fields, session } = plan;
  const startMs = context.clock();
  const numChoices = fields.n ?? 1;
  const choices = plan.prompts.flatMap((prompt, promptIndex) =>
    choicesOf(plan, prompt, numChoices, promptIndex * numChoices, sessionCalls[promptIndex]),
  );
  const [first] = choices;
  const prefix = sessionCalls[0]?.prefix;
  countStart(context, plan, sessionCalls);
  let numTokensSeen = 0;
  return {
    choices,
    format: plan.formatWith(session && prefix ? { reroll: { session: session.id, prefix: prefixFields(prefix) } } : {}),
    headers: headersOf(context, plan, prefix),
    isStream: fields.stream ?? false,
    streamInterval: fields.stream_interval ?? 1,
    stallTimeoutMs: context.stallTimeoutMs,
    takesPartialReplies: fields.return_token_ids ?? false,
    newReader: () =>
      new ReplyReader({
        tokenizer: context.tokenizer,
        stopIds: first?.sampling.stopIds ?? [],
        stopStrings: first?.sampling.stopStrings ?? [],
        ...(plan.newCallId && { newCallId: plan.newCallId }),
        ...(plan.tools && { tools: plan.tools }),
        ...(plan.separatesThinking === true && { separatesThinking: true }),
        ...(first !== undefined && { promptIds: first.promptIds }),
      }),
    onFirstTokens() {
      if (numTokensSeen++ === 0) context.metrics.firstToken.observe((context.clock() - startMs) / 1000);
    },
    onReply(choice, generation, reader) {
      const sessionCall = sessionCalls[Math.floor(choice.index / numChoices)];
      sessionCall?.record(choice.index % numChoices, generation, messageOf(reader.visible));
      const written = reader.writtenReply(generation.tokenIds, generation.finish);
      if (written !== undefined) {
        const promptKey = promptKeyOf(choice.promptIds);
        context.replies.record(reader.visible, { ...written, sessionId: session?.id, promptKey });
      }
      context.metrics.replyTokens.add(generation.usage.generatedTokens);
      context.metrics.duration.observe((context.clock() - startMs) / 1000);
    },
    errorOf(cause) {
      const told = errorReplyOf(cause, 1);
      if (isOwnFault(told)) context.onError(cause);
      return told.body.error;
    },
  };
}

function choicesOf(
  plan: CallPlan,
  prompt: CallPrompt,
  numChoices: number,
  firstIndex: number,
  sessionCall: SessionCall | undefined,
): readonly Choice[] {
  const sampling = plan.samplingFor(prompt);
  return Array.from({ length: numChoices }, (_, choice) => ({
    index: firstIndex + choice,
    promptIds: prompt.promptIds,
    // Choices with one seed would all be the same.
    sampling: sampling.seed === undefined ? sampling : { ...sampling, seed: laterSeed(sampling.seed, choice) },
    numTopLogprobs: plan.numTopLogprobs,
    cacheKey: sessionCall?.cacheKey(choice) ?? (choice === 0 ? cacheKeyOf(plan.fields.session_id) : undefined),
  }));
}

/** The seed this many after another one. After the largest comes 0. */
function laterSeed(seed: number, count: number): number {
  const numLeft = Number.MAX_SAFE_INTEGER - seed;
  return count <= numLeft ? seed + count : count - numLeft - 1;
}

/** No session has a name with a space, so a client's key never meets the cache of a session. */
function cacheKeyOf(sessionId: string | undefined): string | undefined {
  return sessionId === undefined ? undefined : `client ${sessionId}`;
}

function countStart(context: ServerContext, plan: CallPlan, sessionCalls: readonly (SessionCall | undefined)[]): void {
  const { metrics } = context;
  for (const { promptIds } of plan.prompts) metrics.promptTokens.add(promptIds.length);
  for (const call of sessionCalls) if (call !== undefined) metrics.prefixes.add(1, { outcome: call.prefix.kind });
  if (plan.ignoredFields.length > 0) metrics.ignoredFields.add();
}

function headersOf(context: ServerContext, plan: CallPlan, prefix: PrefixOutcome | undefined) {
  const { run } = context.served;
  return {
    "x-reroll-version": String(context.engine.status().version),
    ...(run !== "" && { "x-reroll-run": run }),
    ...(prefix && { "x-reroll-prefix": prefixText(prefix) }),
    ...(plan.ignoredFields.length > 0 && { "x-reroll-ignored-fields": headerText(plan.ignoredFields.join(", ")) }),
  };
}

function prefixFields(prefix: PrefixOutcome): object {
  return prefix.kind === "extended" ? { kind: prefix.kind, num_new: prefix.numNew } : prefix;
}

function prefixText(prefix: PrefixOutcome): string {
  return prefix.kind === "forked" ? `forked; reason=${prefix.reason}; at=${prefix.at}` : prefix.kind;
}

/** Names come from the client: only what a header may hold is left, and not too much of it. */
function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?").slice(0, 512);
}

function messageOf({ content, reasoning, toolCalls }: ReplyReader["visible"]): ChatMessage {
  const thought = reasoning === "" ? {} : { reasoning_content: reasoning };
  if (toolCalls.length === 0) return { role: "assistant", content, ...thought };
  return { role: "assistant", content: content === "" ? null : content, ...thought, tool_calls: toolCalls };
}

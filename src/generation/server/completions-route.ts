/** POST /v1/completions */
import type { FastifyInstance } from "fastify";
import { createCompletionFormat, type PromptScores } from "./completion-format.ts";
import { type CompletionPrompt, type CompletionRequest, parseCompletionRequest } from "./completion-request.ts";
import { checkLimits, roomFor, withCall } from "./generation-call.ts";
import { requestError } from "./openai-errors.ts";
import { answer } from "./run-choices.ts";
import { checkModel, samplingOf } from "./sampling-request.ts";
import type { ServerContext } from "./server-parts.ts";
import type { CallPrompt, Session } from "./session.ts";
import { sessionIdOf } from "./session-id.ts";

export function addCompletionsRoute(app: FastifyInstance, context: ServerContext): void {
  app.post("/v1/completions", async (request, reply) => {
    const completion = parseCompletionRequest(request.body);
    checkModel(completion.fields.model, context);
    const numChoices = checkLimits(context, completion.prompts.length, completion.fields);
    context.calls.admit(numChoices);
    await context.calls.run(reply.raw, async (signal) => {
      const sessionId = sessionIdOf(request);
      const session = sessionId === undefined ? undefined : context.sessions.open(sessionId);
      const prompts = await callPrompts(context, completion.prompts, session);
      for (const { promptIds } of prompts) roomFor(context, promptIds, "prompt", session);
      const promptScores = completion.scoresPrompts ? await scorePrompts(context, prompts) : undefined;
      // Encoding took a while: the engine may be full or paused by now.
      context.calls.admit(numChoices);
      await withCall(context, completionPlan(context, completion, session, { prompts, promptScores }), (call) =>
        answer(context.engine, call, reply, signal),
      );
    });
    return reply;
  });
}

/** The log-probs of each prompt's own tokens. */
async function scorePrompts({ engine }: ServerContext, prompts: readonly CallPrompt[]): Promise<PromptScores> {
  const { scorePrompt } = engine;
  if (scorePrompt === undefined)
    throw requestError("prompt_logprobs", "prompt_logprobs is not supported by the engine of this server.");
  return new Map(
    await Promise.all(prompts.map(async ({ promptIds }) => [promptIds, await scorePrompt(promptIds)] as const)),
  );
}

async function callPrompts(
  context: ServerContext,
  prompts: readonly CompletionPrompt[],
  session: Session | undefined,
): Promise<readonly CallPrompt[]> {
  const encoded: CallPrompt[] = [];
  for (const prompt of prompts) {
    const promptIds = typeof prompt === "string" ? await encodeText(context, prompt, session) : Int32Array.from(prompt);
    encoded.push({ promptIds, hasHistory: undefined, hasChangedReplies: false });
  }
  return encoded;
}

/** A text that goes on from one of the session's samples keeps its tokens; only the rest is encoded. */
async function encodeText(context: ServerContext, text: string, session: Session | undefined): Promise<Int32Array> {
  const { encoder, tokenizer, engine } = context;
  const { contextLength } = engine.status();
  const start = session?.findStart(text, (ids) => tokenizer.decode(ids));
  if (start === undefined) return encoder.encode(text, contextLength);
  const rest = await encoder.encode(start.rest, contextLength);
  return Int32Array.from([...start.ids, ...rest]);
}

function completionPlan(
  context: ServerContext,
  completion: CompletionRequest,
  session: Session | undefined,
  {
    prompts,
    promptScores,
  }: { readonly prompts: readonly CallPrompt[]; readonly promptScores: PromptScores | undefined },
) {
  const { fields, maxTokens, numTopLogprobs, showsTokenIds, ignoredFields } = completion;
  const { tokenizer, modelName } = context;
  const sampling = samplingOf(fields, maxTokens, context.samplingRules, completion.constraint);
  return {
    ...{ fields, prompts, session, ignoredFields },
    numTopLogprobs: numTopLogprobs ?? 0,
    samplingFor: () => sampling,
    formatWith: (extensions: object) =>
      createCompletionFormat({
        ...{ tokenizer, showsTokenIds, extensions },
        id: `cmpl-${context.newId()}`,
        created: Math.floor(context.clock() / 1000),
        model: modelName,
        logprobs: numTopLogprobs !== undefined,
        returnTokenIds: fields.return_token_ids ?? false,
        includeUsage: fields.stream_options?.include_usage ?? false,
        ...(promptScores !== undefined && { promptScores }),
      }),
  };
}

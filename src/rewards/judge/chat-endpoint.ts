/**
 * One question to a chat model behind any server that speaks the OpenAI format, asked again until it is answered.
 *
 * Comes in: messages and a reader of the reply. Goes out: what the reader made of it. A busy or broken server (408, 425,
 * 429, 5xx), a lost connection, a call that takes too long, and a reply that cannot be read are tried again, with waits
 * that double and never fall short of Retry-After; other refusals are final. Waits for: the server.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { type Secret, splitAddress } from "../../errors/secret.ts";
import { linkedAbort } from "../linked-abort.ts";
import type { Budget } from "./budget.ts";

interface ChatEndpointOptions {
  /** Up to and without `/chat/completions`, such as `https://api.openai.com/v1`. */
  readonly baseUrl: Secret;
  readonly apiKey?: Secret | undefined;
  readonly headers?: Secret<Readonly<Record<string, string>>> | undefined;
  /** What every request holds besides the messages: model, temperature, max_tokens. */
  readonly body: Readonly<Record<string, unknown>>;
  /** For one call. */
  readonly timeoutMs: number;
  /** Calls after the first. */
  readonly maxRetries: number;
  /** The wait before the first retry; it doubles from there. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  readonly budget: Budget;
}

export interface EndpointMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** One of the likeliest first tokens of a reply. */
export interface FirstToken {
  readonly token: string;
  readonly logprob: number;
}

/** Asks until `read` gives something; undefined from `read` means that the reply is not as asked for. */
type AskEndpoint = <T>(
  messages: readonly EndpointMessage[],
  read: (text: string, firstTokens: readonly FirstToken[]) => T | undefined,
  signal: AbortSignal,
) => Promise<T>;

export function createChatEndpoint(options: ChatEndpointOptions): AskEndpoint {
  return async (messages, read, signal) => {
    for (let attempt = 0; ; attempt++) {
      options.budget.spendCall();
      const answer = await callOnce(options, messages, signal);
      if (answer.kind === "text") {
        const found = read(answer.text, answer.firstTokens);
        if (found !== undefined) return found;
      }
      const problem = answer.kind === "text" ? unreadable(answer.text) : answer.error;
      if (answer.kind === "final" || attempt >= options.maxRetries) throw problem;
      const wanted = Math.min(options.backoffMs * 2 ** attempt, options.maxBackoffMs);
      const asked = answer.kind === "retry" ? answer.retryAfterMs : 0;
      // A server that asks for a longer wait than we allow is not asked again too early, but given up.
      if (asked > options.maxBackoffMs) throw problem;
      await sleep(Math.max(wanted, asked), undefined, { signal });
    }
  };
}

type Answer =
  | { readonly kind: "text"; readonly text: string; readonly firstTokens: readonly FirstToken[] }
  | { readonly kind: "retry"; readonly error: RerollError; readonly retryAfterMs: number }
  | { readonly kind: "final"; readonly error: RerollError };

const tokenSchema = z.object({
  top_logprobs: z.array(z.object({ token: z.string(), logprob: z.number() })),
});
const choiceSchema = z.object({
  message: z.object({ content: z.string() }),
  logprobs: z.object({ content: z.array(tokenSchema).nullish() }).nullish(),
});
const replySchema = z.object({
  choices: z.array(choiceSchema).min(1),
  usage: z.object({ total_tokens: z.number().nonnegative() }).nullish(),
});

async function callOnce(
  options: ChatEndpointOptions,
  messages: readonly EndpointMessage[],
  outer: AbortSignal,
): Promise<Answer> {
  const { url: target, headers } = splitAddress(endpointOf(options.baseUrl.reveal()));
  const url = endpointOf(String(options.baseUrl));
  const request = JSON.stringify({ ...options.body, messages });
  const { signal, abort, unlink } = linkedAbort(outer);
  const timer = setTimeout(abort, options.timeoutMs);
  try {
    const allHeaders = { ...headers, ...headersOf(options) };
    const response = await fetch(target, { method: "POST", headers: allHeaders, body: request, signal });
    const text = await response.text();
    if (!response.ok) return refusal(url, response, text);
    return readReply(url, text, request.length, options.budget);
  } catch (cause) {
    outer.throwIfAborted();
    const reason = signal.aborted ? `no answer within ${options.timeoutMs} ms` : reasonOf(cause);
    return retry(new RerollError("JUDGE_UNREACHABLE", `${url}: ${reason}.`, { url }, { cause }));
  } finally {
    clearTimeout(timer);
    unlink();
  }
}

/** The path belongs before the query, where an address has one. */
function endpointOf(baseUrl: string): string {
  const [, path = "", query = ""] = /^([^?#]*)(.*)$/s.exec(baseUrl) ?? [];
  return `${path.replace(/\/+$/, "")}/chat/completions${query}`;
}

function headersOf({ apiKey, headers }: ChatEndpointOptions): Record<string, string> {
  return {
    "content-type": "application/json",
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey.reveal()}` }),
    ...headers?.reveal(),
  };
}

function readReply(url: string, text: string, requestLength: number, budget: Budget): Answer {
  const parsed = replySchema.safeParse(parseJson(text));
  if (!parsed.success) {
    budget.spendTokens(estimateTokens(requestLength + text.length));
    return retry(
      new RerollError(
        "JUDGE_UNREADABLE",
        `${url} answered 200 without a reply: ${JSON.stringify(text.slice(0, 200))}.`,
      ),
    );
  }
  const { choices, usage } = parsed.data;
  const { message, logprobs } = choices[0]!;
  budget.spendTokens(usage?.total_tokens ?? estimateTokens(requestLength + message.content.length));
  return { kind: "text", text: message.content, firstTokens: logprobs?.content?.[0]?.top_logprobs ?? [] };
}

function refusal(url: string, response: Response, text: string): Answer {
  const { status } = response;
  const error = new RerollError("JUDGE_REFUSED", `${url} answered ${status}: ${JSON.stringify(text.slice(0, 200))}.`, {
    url,
    status,
  });
  const isPassing = status >= 500 || [408, 425, 429].includes(status);
  return isPassing ? retry(error, retryAfterMs(response.headers)) : { kind: "final", error };
}

/** Seconds, or a date, which is compared with the server's own clock. */
function retryAfterMs(headers: Headers): number {
  const after = headers.get("retry-after");
  if (after === null) return 0;
  if (/^\d+(\.\d+)?$/.test(after)) return Number(after) * 1000;
  const waitMs = Date.parse(after) - Date.parse(headers.get("date") ?? "");
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : 0;
}

function retry(error: RerollError, retryAfter = 0): Answer {
  return { kind: "retry", error, retryAfterMs: retryAfter };
}

function unreadable(text: string): RerollError {
  return new RerollError(
    "JUDGE_UNREADABLE",
    `The judge's last line is no verdict: got ${JSON.stringify(text.slice(-200))}. Raise maxReplyTokens if it was cut off, or use a stronger judge.`,
    { text },
  );
}

/** About four characters to a token, for servers that do not say. */
function estimateTokens(numCharacters: number): number {
  return Math.ceil(numCharacters / 4);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.cause instanceof Error ? `${cause.message}: ${cause.cause.message}` : cause.message;
}

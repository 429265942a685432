/**
 * Runs the choices of a call on the engine, and answers the client: as a whole, or as a stream.
 *
 * Every choice starts at once; the engine batches them. One that fails ends the others. Waits for: the engine, and in a
 * stream for the client to read; tokens that come meanwhile are sent together.
 */
import { setMaxListeners } from "node:events";
import type { FastifyReply } from "fastify";
import type { ReplyReader } from "../../chat/reply-reader.ts";
import { addPart, type ReplyPart } from "../../chat/tool-calls/reply-part.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { joinTokens } from "../../flow/sampled-tokens.ts";
import type { ServedEngine } from "../engine.ts";
import type { Generation, SampledTokens } from "../generate.ts";
import { generationError, type OpenAiError } from "./openai-errors.ts";
import { type Choice, type ChoiceResult, type ReplyFormat, usageOf } from "./reply-format.ts";
import { EventStream } from "./sse.ts";

export interface Call {
  readonly choices: readonly Choice[];
  readonly format: ReplyFormat;
  readonly headers: Readonly<Record<string, string>>;
  readonly isStream: boolean;
  /** Tokens of a choice that are sent together. The first and the last are not kept waiting. */
  readonly streamInterval: number;
  /** A client that reads nothing of its answer for this long is cut off. */
  readonly stallTimeoutMs: number;
  /** Whether the client can do something with tokens of a reply that was broken off. */
  readonly takesPartialReplies: boolean;
  newReader(): ReplyReader;
  /** Told of every reply, however it ended, before the client is. */
  onReply(choice: Choice, generation: Generation, reader: ReplyReader): void;
  /** Told of the first tokens, in a stream. */
  onFirstTokens(): void;
  /** What went wrong, for a client that already reads the stream. */
  errorOf(cause: unknown): OpenAiError;
}

/** Answers the client. A failure before the first byte is thrown; later ones are told in the stream. */
export async function answer(
  engine: ServedEngine,
  call: Call,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<void> {
  const runs = new Runs(engine, call, signal);
  if (call.isStream) return answerInStream(call, runs, reply);
  const results = await runs.results();
  reply.raw.setTimeout(call.stallTimeoutMs);
  await reply.headers(call.headers).send(call.format.whole(results, usageOf(results)));
}

async function answerInStream(call: Call, runs: Runs, reply: FastifyReply): Promise<void> {
  const stream = new EventStream(reply.raw, call.headers, () => reply.hijack(), call.stallTimeoutMs);
  try {
    while (!runs.haveEnded) {
      await runs.news();
      for (const chunk of runs.takeChunks()) await stream.send(chunk);
    }
    const results = await runs.results();
    for (const event of call.format.end(results, usageOf(results))) await stream.send(event);
  } catch (cause) {
    if (!stream.isOpen) throw cause;
    await stream.send(call.format.failure(call.errorOf(cause)));
  } finally {
    await runs.end();
  }
  stream.end();
}

/** All choices of a call. */
class Runs {
  readonly #runs: readonly Run[];
  readonly #settled: Promise<readonly ChoiceResult[]>;
  readonly #controller = new AbortController();
  #failure: { readonly cause: unknown } | undefined;
  #hasSettled = false;
  #onNews: (() => void) | undefined;
  #hasNews = false;

  constructor(engine: ServedEngine, call: Call, signal: AbortSignal) {
    // Every choice listens.
    setMaxListeners(0, this.#controller.signal);
    const abort = () => this.#controller.abort();
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    this.#runs = call.choices.map((choice) => new Run(choice, call, () => this.#wake()));
    this.#settled = this.#start(engine).finally(() => signal.removeEventListener("abort", abort));
  }

  /** Whether every choice has ended and all its chunks were taken. */
  get haveEnded(): boolean {
    return this.#hasSettled && !this.#hasNews;
  }

  /** Resolves when something has come since the last time. */
  async news(): Promise<void> {
    if (!this.#hasNews) await new Promise<void>((resolve) => (this.#onNews = resolve));
    this.#hasNews = false;
  }

  takeChunks(): readonly object[] {
    return this.#failure === undefined ? this.#runs.flatMap((run) => run.takeChunks()) : [];
  }

  /** The results of all, or the first failure, once none is running any more. */
  async results(): Promise<readonly ChoiceResult[]> {
    const results = await this.#settled;
    if (this.#failure !== undefined) throw this.#failure.cause;
    return results;
  }

  /** Ends what is still running, and waits for it. */
  async end(): Promise<void> {
    this.#controller.abort();
    await this.#settled;
  }

  async #start(engine: ServedEngine): Promise<readonly ChoiceResult[]> {
    const results = await Promise.all(this.#runs.map((run) => this.#runOne(engine, run)));
    this.#hasSettled = true;
    this.#wake();
    return results.filter((result) => result !== undefined);
  }

  async #runOne(engine: ServedEngine, run: Run): Promise<ChoiceResult | undefined> {
    try {
      return await run.start(engine, this.#controller.signal);
    } catch (cause) {
      this.#failure ??= { cause };
      this.#controller.abort();
      return undefined;
    }
  }

  #wake(): void {
    this.#hasNews = true;
    this.#onNews?.();
  }
}

/** One choice on its way. */
class Run {
  readonly #choice: Choice;
  readonly #call: Call;
  readonly #reader: ReplyReader;
  readonly #onNews: () => void;
  #tokens: SampledTokens[] = [];
  #parts: ReplyPart[] = [];
  #generation: Generation | undefined;
  #hasSent = false;
  #hasSentAll = false;
  #numWaiting = 0;

  constructor(choice: Choice, call: Call, onNews: () => void) {
    this.#choice = choice;
    this.#call = call;
    this.#reader = call.newReader();
    this.#onNews = onNews;
  }

  async start(engine: ServedEngine, signal: AbortSignal): Promise<ChoiceResult> {
    const { promptIds, sampling, numTopLogprobs, cacheKey } = this.#choice;
    const generation = await engine.generate({
      ...{ promptIds, sampling, numTopLogprobs, signal },
      ...(cacheKey !== undefined && { sessionId: cacheKey }),
      ...(this.#call.isStream && { onTokens: (tokens: SampledTokens) => this.#add(tokens) }),
    });
    if (!this.#call.isStream) this.#reader.push(generation.tokenIds);
    for (const part of this.#reader.end()) addPart(this.#parts, part);
    this.#call.onReply(this.#choice, generation, this.#reader);
    refuseBroken(generation, this.#call.takesPartialReplies);
    this.#generation = generation;
    this.#onNews();
    return { choice: this.#choice, generation, visible: this.#reader.visible };
  }

  takeChunks(): readonly object[] {
    const tokens = joinTokens(this.#tokens.splice(0));
    this.#numWaiting = 0;
    const parts = this.#parts.splice(0);
    const finish = this.#hasSentAll ? undefined : this.#generation?.finish;
    this.#hasSentAll = this.#generation !== undefined;
    if (tokens.tokenIds.length === 0 && parts.length === 0 && finish === undefined) return [];
    const hasToolCalls = this.#reader.visible.toolCalls.length > 0;
    const update = { choice: this.#choice, tokens, parts, finish, isFirst: !this.#hasSent, hasToolCalls };
    const chunks = this.#call.format.chunks(update);
    this.#hasSent ||= chunks.length > 0;
    return chunks;
  }

  #add(tokens: SampledTokens): void {
    this.#call.onFirstTokens();
    this.#tokens.push(tokens);
    for (const part of this.#reader.push(tokens.tokenIds)) addPart(this.#parts, part);
    this.#numWaiting += tokens.tokenIds.length;
    if (!this.#hasSent || this.#numWaiting >= this.#call.streamInterval) this.#onNews();
  }
}

function refuseBroken({ finish }: Generation, takesPartialReplies: boolean): void {
  if (finish.kind === "failed") throw generationError(finish.error);
  if (finish.kind !== "aborted" || takesPartialReplies) return;
  throw new RerollError("GENERATION_ABORTED", "The reply was broken off by the server. Send the request again.");
}

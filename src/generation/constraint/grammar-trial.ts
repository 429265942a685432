/**
 * Tries grammars out before the engine compiles them.
 *
 * A short pattern can take the compiler hours, and a deep one breaks it for every request after it. So a thread apart, with a compiler of
 * its own, goes first, under a limit of time; after a failure it is replaced. One grammar at a time, in the order of the requests.
 */
import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { startWorker } from "../../workers/start-worker.ts";
import type { Grammar } from "./constraint.ts";
import { invalidConstraint } from "./grammar-text.ts";
import type { SpelledVocabulary } from "./xgrammar.ts";

/** What people ask for takes milliseconds. The engine stands still for as long when its turn comes. */
const LIMIT_MS = 3000;

export class GrammarTrial {
  readonly #vocabulary: SpelledVocabulary;
  #thread: Promise<Worker> | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(vocabulary: SpelledVocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** Rejects with INVALID_REQUEST where the grammar takes too long or breaks the compiler. */
  run(grammar: Grammar): Promise<void> {
    const trial = this.#last.then(() => this.#run(grammar));
    this.#last = trial.catch(() => {});
    return trial;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#replace();
  }

  async #run(grammar: Grammar): Promise<void> {
    if (this.#isClosed) throw refuse("was asked for while the engine closed");
    this.#thread ??= start(this.#vocabulary);
    const thread = await this.#thread;
    thread.postMessage(grammar);
    const failure = await answerOf(thread, LIMIT_MS).catch((cause: Error) => cause.message);
    if (failure === null) return;
    await this.#replace();
    throw refuse(failure);
  }

  async #replace(): Promise<void> {
    const thread = this.#thread;
    this.#thread = null;
    await (await thread)?.terminate();
  }
}

async function start(vocabulary: SpelledVocabulary): Promise<Worker> {
  // A stack no larger than the smallest one that an engine may run on.
  const resourceLimits = { stackSizeMb: 1 };
  const thread = startWorker(new URL("trial-worker", import.meta.url), vocabulary, { resourceLimits });
  await once(thread, "message");
  thread.unref();
  return thread;
}

async function answerOf(thread: Worker, limitMs: number): Promise<string | null> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), limitMs);
  try {
    const [failure] = (await once(thread, "message", { signal: stop.signal })) as [string | null];
    return failure;
  } catch (cause) {
    if (stop.signal.aborted) return `takes longer than ${limitMs} ms`;
    throw cause;
  } finally {
    clearTimeout(timer);
  }
}

function refuse(why: string) {
  return invalidConstraint(
    "response_format",
    `The format asked for cannot be compiled: it ${/^(takes|was)/.test(why) ? why : `breaks the compiler (${why})`}. Ask for less: fewer repeats inside of repeats, and less nesting.`,
  );
}

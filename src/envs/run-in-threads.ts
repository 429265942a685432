/**
 * Environments in worker threads, for those whose steps take long enough to hold up the event loop.
 *
 * In: a module and the name of a function that builds an `EnvFactory`. Out: an `EnvFactory` whose episodes live in threads,
 * each in the one with the fewest. Threads start as episodes come and end when they have had none for a while: there is one at least. A thread that crashes or hangs fails the episode whose call it was lost in. Its other episodes go on in
 * other threads, where they are first played again up to where they were: see `hosted-env.ts`. Threads share a process: a crash of
 * native code still ends all of it.
 */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { WatchedThread, wasLostElsewhere } from "../workers/watched-thread.ts";
import type { EnvHost, EnvSource } from "./env-host.ts";
import { type EnvThread, makeHostedEnv } from "./hosted-env.ts";
import type { EnvFactory, EnvWords } from "./text-env.ts";

/** The environments to run in threads, and the number of threads. */
export interface ThreadHostOptions {
  /** The address (`import.meta.url` style) or the absolute path of a module. */
  readonly module: string;
  /** A function of that module: options in, `EnvFactory` or a promise of it out. */
  readonly exportName: string;
  /** Argument of the function. Plain data, since it crosses threads. */
  readonly options?: unknown;
  /** Maximum number of threads. */
  readonly numThreads: number;
  /** How long a thread without episodes is kept. Default 60,000. */
  readonly idleMs?: number;
  /** Name of the environment in errors. Default: `exportName`. */
  readonly name?: string;
  /** Makes prompts by seed, here, for those who cannot wait for a thread. */
  readonly makePrompt?: (seed: number) => Prompt;
  readonly words?: EnvWords;
  /**
   * How long a thread may say nothing while something is asked of it, and how long a call may take. Time in which a thread is busy
   * with other calls does not count. Default 60,000, which is also the least that its start may take.
   */
  readonly timeoutMs?: number;
  /** Told of what environments throw outside of their calls, as in a timer. Default: standard error. */
  readonly report?: (text: string) => void;
}

/** An environment whose episodes live in threads. */
export interface ThreadHost extends EnvFactory {
  /** Makes a prompt as `makePrompt` does, in a thread: one that hangs or ends the process there has failed, and nothing else. */
  promptInThread(seed: number): Promise<Prompt>;
  close(): Promise<void>;
}

/**
 * Starts the threads. Episodes have `start`, `step` and `end`, and `render` as of the last answer; `randomReply` and
 * `oracleReply` would have to wait for the thread and are left out.
 */
export function runInThreads(host: ThreadHostOptions): ThreadHost {
  const {
    module,
    exportName,
    options = {},
    numThreads,
    name = exportName,
    makePrompt,
    words,
    timeoutMs = 60_000,
    idleMs = 60_000,
    report,
  } = host;
  if (!Number.isSafeInteger(numThreads) || numThreads < 1) {
    throw new RerollError("INVALID_ARGUMENT", `numThreads must be a whole number above 0: got ${numThreads}.`, {
      numThreads,
    });
  }
  const source: EnvSource = {
    module: isAbsolute(module) ? pathToFileURL(module).href : module,
    exportName,
    options: structuredClone(options),
  };
  const startThread = (): EnvThread =>
    new WatchedThread<EnvHost>({
      name: `Env "${name}"`,
      module: new URL("env-worker", import.meta.url),
      source,
      needsTypeScript: source.module.endsWith(".ts"),
      timeoutMs,
      limitsCalls: true,
      report,
      codes: { lost: "ENV_THREAD_LOST", failed: "ENV_FAILED" },
    });
  let threads: EnvThread[] = [startThread()];
  let numCalls = 0;
  let isClosed = false;

  const pickThread = (): EnvThread => {
    if (isClosed) throw new RerollError("ENV_THREAD_LOST", `Env "${name}" is gone: it was closed.`, { running: 0 });
    threads = threads.filter((thread) => thread.isRunning);
    const idle = threads.find(({ load }) => load === 0);
    if (idle === undefined && threads.length < numThreads) threads.push(startThread());
    return idle ?? threads.reduce((best, thread) => (thread.load < best.load ? thread : best));
  };

  // A thread that had no episode at the last two looks has had none for a while.
  let wereIdle = new Set<EnvThread>();
  const shrink = () => {
    const idle = threads.filter(({ load }) => load === 0);
    const ended = idle.filter((thread) => wereIdle.has(thread)).slice(threads.length === idle.length ? 1 : 0);
    threads = threads.filter((thread) => !ended.includes(thread));
    wereIdle = new Set(idle);
    // One that is lost on its way out has ended as well.
    for (const thread of ended) thread.close().catch(() => {});
  };
  const shrinking = setInterval(shrink, idleMs).unref();

  return {
    runsInThreads: true,
    ...(makePrompt === undefined ? {} : { makePrompt }),
    ...(words === undefined ? {} : { words }),
    makeEnv: (prompt, seed) => makeHostedEnv({ number: ++numCalls, name, prompt, seed, pickThread }),
    promptInThread: (seed) => promptFrom(pickThread, ++numCalls, seed),
    close: async () => {
      isClosed = true;
      clearInterval(shrinking);
      await Promise.all(threads.map((thread) => thread.close()));
    },
  };
}

/** A thread that is lost to an episode says nothing of the prompt: another one is asked. */
async function promptFrom(pickThread: () => EnvThread, number: number, seed: number): Promise<Prompt> {
  for (;;) {
    const thread = pickThread();
    try {
      return await thread.ask((envs) => envs.makePrompt(number, seed));
    } catch (error) {
      if (!wasLostElsewhere(error, "ENV_THREAD_LOST", number)) throw error;
    }
  }
}

/**
 * The sandbox for JavaScript: QuickJS in a pool of threads.
 *
 * A program has the language and what javascript-prelude.ts adds; there is no way from it to Node. It works wherever Node does.
 */
import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import { expectPackage } from "../errors/optional-package.ts";
import { startWorker } from "../workers/start-worker.ts";
import type { JavaScriptRequest } from "./javascript-runner.ts";
import { defaultLimits, type Sandbox, type SandboxLimits, type SandboxProgram, type SandboxResult } from "./sandbox.ts";
import { createWorkerPool, type SandboxWorker, workerLost } from "./worker-pool.ts";

interface JavaScriptSandboxOptions {
  /** Programs at the same time. Default: the number of cores. */
  readonly numWorkers?: number;
  /** A thread is replaced after this many programs, which gives back the memory it took. Default 1000. */
  readonly runsPerWorker?: number;
  /** Programs that may wait for a thread. Default 10000. */
  readonly maxQueued?: number;
  /** Default: 10 s, 512 MiB, 1 MiB of output. */
  readonly limits?: Partial<SandboxLimits>;
}

/** QuickJS looks at the time limit often; this is for a program that found a way to keep it from looking. */
const GRACE_MS = 1_000;
/** Deep recursion of a program is recursion of WebAssembly, which lives on the stack of the thread. */
const STACK_MIB = 64;

export async function createJavaScriptSandbox(options: JavaScriptSandboxOptions = {}): Promise<Sandbox> {
  expectPackage("quickjs-emscripten", "The sandbox for JavaScript");
  const limits = { ...defaultLimits, ...options.limits };
  return createWorkerPool({
    start: () => startJavaScriptWorker(limits),
    numWorkers: options.numWorkers ?? availableParallelism(),
    runsPerWorker: options.runsPerWorker ?? 1000,
    maxQueued: options.maxQueued ?? 10_000,
  });
}

async function startJavaScriptWorker(limits: SandboxLimits): Promise<SandboxWorker> {
  const worker = new JavaScriptWorker(startThread(), limits);
  await worker.nextMessage();
  return worker;
}

class JavaScriptWorker implements SandboxWorker {
  readonly #thread: Worker;
  readonly #limits: SandboxLimits;
  /** Why the thread ended, once it has. It is listened to all the time: a thread may end while nobody waits. */
  #end: string | null = null;
  #message: unknown;
  #wake: () => void = () => {};

  constructor(thread: Worker, limits: SandboxLimits) {
    this.#thread = thread;
    this.#limits = limits;
    thread.on("message", (message) => {
      this.#message = message;
      this.#wake();
    });
    thread.on("error", (error) => this.#finish(error.message));
    thread.on("exit", (code) => this.#finish(`exit status ${code}`));
  }

  async run(program: SandboxProgram): Promise<SandboxResult> {
    const { memoryBytes, outputBytes, wallMs } = { ...this.#limits, ...program.limits };
    const stop = new Int32Array(new SharedArrayBuffer(4));
    let isStuck = false;
    let timer = setTimeout(() => {
      Atomics.store(stop, 0, 1);
      timer = setTimeout(() => {
        isStuck = true;
        void this.stop();
      }, GRACE_MS);
    }, wallMs);
    const { code, stdin = "", examiner = null } = program;
    this.#thread.postMessage({ code, stdin, examiner, memoryBytes, outputBytes, stop } satisfies JavaScriptRequest);
    try {
      return (await this.nextMessage()) as SandboxResult;
    } catch (error) {
      if (!isStuck) throw error;
      return { kind: "timeout", output: "", errorOutput: "", report: "", wallMs: wallMs + GRACE_MS };
    } finally {
      clearTimeout(timer);
    }
  }

  hasEnded(): boolean {
    return this.#end !== null;
  }

  async stop(): Promise<void> {
    this.#finish("stopped");
    await this.#thread.terminate();
  }

  /** Rejects when the thread ends before it says something. */
  async nextMessage(): Promise<unknown> {
    while (this.#message === undefined) {
      if (this.#end !== null) throw workerLost(this.#end);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const message = this.#message;
    this.#message = undefined;
    return message;
  }

  #finish(reason: string): void {
    this.#end ??= reason;
    this.#wake();
  }
}

function startThread(): Worker {
  const resourceLimits = { stackSizeMb: STACK_MIB };
  return startWorker(new URL("javascript-runner", import.meta.url), null, { env: {}, stdin: false, resourceLimits });
}

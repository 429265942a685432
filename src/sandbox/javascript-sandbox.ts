/**
 * The sandbox for JavaScript: QuickJS in a pool of threads.
 *
 * A program has the language and what javascript-prelude.ts adds; there is no way from it to Node. It works wherever Node does.
 */
import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
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

export function createJavaScriptSandbox(options: JavaScriptSandboxOptions = {}): Promise<Sandbox> {
  const limits = { ...defaultLimits, ...options.limits };
  return createWorkerPool({
    start: () => startJavaScriptWorker(limits),
    numWorkers: options.numWorkers ?? availableParallelism(),
    runsPerWorker: options.runsPerWorker ?? 1000,
    maxQueued: options.maxQueued ?? 10_000,
  });
}

async function startJavaScriptWorker(limits: SandboxLimits): Promise<SandboxWorker> {
  const thread = startThread();
  await nextMessage(thread);
  return {
    run: (program) => runInThread(thread, program, { ...limits, ...program.limits }),
    stop: async () => void (await thread.terminate()),
  };
}

async function runInThread(thread: Worker, program: SandboxProgram, limits: SandboxLimits): Promise<SandboxResult> {
  const { memoryBytes, outputBytes, wallMs } = limits;
  const stop = new Int32Array(new SharedArrayBuffer(4));
  let isStuck = false;
  let timer = setTimeout(() => {
    Atomics.store(stop, 0, 1);
    timer = setTimeout(() => {
      isStuck = true;
      void thread.terminate();
    }, GRACE_MS);
  }, wallMs);
  const request: JavaScriptRequest = { code: program.code, stdin: program.stdin ?? "", memoryBytes, outputBytes, stop };
  thread.postMessage(request);
  try {
    return (await nextMessage(thread)) as SandboxResult;
  } catch (error) {
    if (!isStuck) throw error;
    return { kind: "timeout", output: "", errorOutput: "", report: "", wallMs: wallMs + GRACE_MS };
  } finally {
    clearTimeout(timer);
  }
}

/** Rejects when the thread ends before it says something. */
function nextMessage(thread: Worker): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      thread.off("message", onMessage).off("error", onError).off("exit", onExit);
      act();
    };
    const onMessage = (message: unknown) => settle(() => resolve(message));
    const onError = (error: Error) => settle(() => reject(workerLost(error.message)));
    const onExit = (code: number) => settle(() => reject(workerLost(`exit status ${code}`)));
    thread.on("message", onMessage).on("error", onError).on("exit", onExit);
  });
}

function startThread(): Worker {
  const resourceLimits = { stackSizeMb: STACK_MIB };
  return startWorker(new URL("javascript-runner", import.meta.url), null, { env: {}, stdin: false, resourceLimits });
}

/** Worker threads of the tests, each on a TypeScript file of this folder. */
import { Worker } from "node:worker_threads";

/** Starts a worker on the file; the file finds the options in `workerData`. */
export function startWorker(file: string, options: Readonly<Record<string, unknown>> = {}): Worker {
  const workerData = { ...options, file: new URL(file, import.meta.url).href };
  return new Worker(new URL("load-typescript.mjs", import.meta.url), { workerData, execArgv: [] });
}

/** The next message of a worker. Rejects where it fails or ends before. */
export async function nextMessage<T>(worker: Worker): Promise<T> {
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`the worker ended with code ${code} before it sent a message`)));
  });
}

/** The code a worker ends with. */
export async function exitOf(worker: Worker): Promise<number> {
  return new Promise((resolve) => worker.once("exit", resolve));
}

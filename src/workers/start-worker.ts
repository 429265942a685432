/** Starts a worker thread from a module of ours. */
import { Worker, type WorkerOptions } from "node:worker_threads";
import { ownModule } from "./own-module.ts";

export interface StartOptions extends Pick<WorkerOptions, "env" | "stdin" | "resourceLimits"> {
  /** Load TypeScript in the thread even where our own modules are JavaScript: it imports a user's file. */
  readonly needsTypeScript?: boolean;
}

/**
 * @param module the module's URL without its ending: `new URL("engine-worker", import.meta.url)`
 * @param workerData plain data; the thread reads it from `node:worker_threads`
 */
export function startWorker(module: URL, workerData: unknown, options: StartOptions = {}): Worker {
  const { needsTypeScript = false, ...settings } = options;
  const file = ownModule(module);
  if (!file.href.endsWith(".ts") && !needsTypeScript) return new Worker(file, { ...settings, workerData });
  // Node 20 loads TypeScript in a thread only through tsx, which the thread has to ask for.
  const tsx = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  const first = `import(${tsx}).then(({ register }) => { register(); return import(${JSON.stringify(file)}); });`;
  return new Worker(first, { ...settings, eval: true, execArgv: [], workerData });
}

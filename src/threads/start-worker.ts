/** Starts a worker thread from a module of ours, which is TypeScript in a checkout and JavaScript in the package. */
import { Worker } from "node:worker_threads";

/**
 * @param module the module's URL without its ending: `new URL("engine-worker", import.meta.url)`
 * @param workerData plain data; the thread reads it from `node:worker_threads`
 */
export function startWorker(module: URL, workerData: unknown): Worker {
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL(`${module.href}.js`), { workerData });
  const tsx = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  const file = JSON.stringify(`${module.href}.ts`);
  const first = `import(${tsx}).then(({ register }) => { register(); return import(${file}); });`;
  return new Worker(first, { eval: true, execArgv: [], workerData });
}

/** The first file of a worker of a test: Node 20 loads TypeScript only through tsx, which each thread must ask for. */
import { workerData } from "node:worker_threads";
import { register } from "tsx/esm/api";

register();
await import(workerData.file);

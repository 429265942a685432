/** The worker's side: an object of this process answers the calls of the process that started it. */
import { isMainThread } from "node:worker_threads";
import { type HostOptions, hostInThread } from "./host-in-thread.ts";
import { Peer } from "./peer.ts";
import { giveSignsOfLife } from "./process-life.ts";
import { parentTransport } from "./process-transport.ts";

/** Either of both, for modules that are started as the one or the other. */
export function hostInWorker<Source>(
  build: (source: Source) => object | Promise<object>,
  options: HostOptions = {},
): Promise<void> {
  return isMainThread ? hostInProcess(build, options) : hostInThread(build, options);
}

/** A terminal, and whoever ends a whole group of processes, signals everybody: what becomes of this one is its owner's to decide. */
export function leaveSignalsToOwner(): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
}

/**
 * Builds the object from the first message of the parent, and answers for it until the parent is gone, with which this process ends too.
 * The parent learns why where it cannot be built. The last statement of a worker's module.
 */
async function hostInProcess<Source>(
  build: (source: Source) => object | Promise<object>,
  { wrap = (line) => line, ...options }: HostOptions = {},
): Promise<void> {
  const parent = parentTransport();
  const line = wrap(parent.line);
  line.onEnd(() => process.exit());
  giveSignsOfLife();
  // A person who interrupts a run interrupts all its processes; when this one ends is for its parent to say.
  process.on("SIGINT", () => {});
  try {
    new Peer(line, await build((await parent.source) as Source), options).announce();
  } catch (error) {
    Peer.refuse(line, error);
  }
}

/** The worker's side: an object of this thread answers the calls of the thread's owner. */
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../errors/reroll-error.ts";
import type { Carrier } from "./luggage.ts";
import { Peer } from "./peer.ts";
import { portTransport } from "./thread-transport.ts";
import type { Transport } from "./transport.ts";

export interface HostOptions {
  readonly carrier?: Carrier;
  /** Wraps the line, as the owner wraps its end. */
  readonly wrap?: (line: Transport) => Transport;
}

/**
 * Builds the object from what the thread was started with, and answers for it until the thread is ended. The owner learns why where it
 * cannot be built. The last statement of a worker's module.
 */
export async function hostInThread<Source>(
  build: (source: Source) => object | Promise<object>,
  { wrap = (line) => line, ...options }: HostOptions = {},
): Promise<void> {
  invariant(parentPort !== null, "a host in a thread runs in a worker thread");
  const line = wrap(portTransport(parentPort));
  try {
    const host = await build(workerData as Source);
    new Peer(line, host, options).announce();
  } catch (error) {
    Peer.refuse(line, error);
  }
}

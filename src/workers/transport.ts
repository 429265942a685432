/**
 * The line between a worker and its owner: ordered messages both ways, and word of its end.
 *
 * Threads of this process are one implementation; child processes and other machines fit behind the same type, as long as they
 * carry what structured clone carries.
 */

/** One end of a line. Messages arrive in the order in which they were posted, each once. */
export interface Transport {
  /** Sends plain data. The buffers in `moved` are handed over instead of copied. Throws for what cannot be sent. */
  post(message: unknown, moved?: readonly ArrayBuffer[]): void;
  onMessage(listen: (message: unknown) => void): void;
  /** Calls once when the other end is gone, with a verb that says how: "crashed: out of memory", "ended with code 1". */
  onEnd(listen: (how: string) => void): void;
  /** Cuts the line, which ends a worker at the far end of it. Resolves when that is gone. */
  close(): Promise<void>;
}

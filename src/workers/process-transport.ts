/** Lines between processes of one machine: Node's own channel, which carries binary data as structured clone does. */
import type { ChildProcess } from "node:child_process";
import { invariant } from "../errors/reroll-error.ts";
import type { Heartbeat } from "./frames.ts";
import { watchLife } from "./process-life.ts";
import type { Transport } from "./transport.ts";

/** The owner's end of the line to a child process. Closing it ends the process, whatever that is doing. One that gives no signs of life is ended. */
export function childTransport(child: ChildProcess, heartbeat?: Heartbeat): Transport {
  const exit = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let silence: string | null = null;
  watchLife(
    child,
    (how) => {
      silence = how;
    },
    heartbeat,
  );
  return {
    post: (message) => void child.send(message as object),
    onMessage: (listen) => void child.on("message", listen),
    onEnd: (listen) => {
      child.on("error", (error: NodeJS.ErrnoException) => {
        // A message to a process that has just ended: its exit, which follows, says how.
        if (error.code !== "EPIPE") listen(`crashed: ${error.message}`);
      });
      child.on("exit", (code, signal) =>
        listen(silence ?? (signal === null ? `ended with code ${code}` : `was ended by ${signal}`)),
      );
    },
    close: async () => {
      child.kill("SIGKILL");
      await exit;
    },
  };
}

/** The end of a child process: what it was started with, and the line from then on. What arrives before somebody listens waits. */
export function parentTransport(): { readonly source: Promise<unknown>; readonly line: Transport } {
  invariant(process.send !== undefined, "a host in a process runs in a child with a channel to its parent");
  const waiting: unknown[] = [];
  let hear = (message: unknown): void => void waiting.push(message);
  const source = new Promise<unknown>((resolve) => {
    process.once("message", (first) => {
      process.on("message", (message) => hear(message));
      resolve(first);
    });
  });
  const line: Transport = {
    post: (message) => void process.send!(message),
    onMessage: (listen) => {
      hear = listen;
      for (const message of waiting.splice(0)) listen(message);
    },
    onEnd: (listen) => void process.on("disconnect", () => listen("closed its channel")),
    close: async () => process.disconnect(),
  };
  return { source, line };
}

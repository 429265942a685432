/** Ctrl-C and its like: the first asks to stop, the second stops at once. */
import { constants } from "node:os";
import { onParentStop } from "./supervised.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** What a person, a supervisor or a closing terminal asked for. */
interface StopSignal {
  readonly signal: AbortSignal;
  /** 128 and the number of the signal, as shells count; 0 where none came. */
  readonly exitCode: () => number;
  /** Whether nobody asked, and the parent of a supervised process is gone. */
  readonly isOrphaned: () => boolean;
  readonly release: () => void;
}

/**
 * A signal that SIGINT, SIGTERM and SIGHUP give; the next of them ends the process. It goes on listening after the first, because
 * parts of the terminal end a process that nobody listens for. A supervised process leaves signals to its parent, and stops when that says so.
 */
export function stopSignal(onFirst: (isOrphaned: boolean) => void, isSupervised = false): StopSignal {
  const controller = new AbortController();
  let exitCode = 0;
  let isOrphaned = false;
  const stop = (name: NodeJS.Signals) => {
    // The parent ends a process that it asks a second time.
    if (controller.signal.aborted && isSupervised) return;
    if (controller.signal.aborted) {
      release();
      process.kill(process.pid, name);
      return;
    }
    exitCode = 128 + constants.signals[name];
    onFirst(isOrphaned);
    controller.abort();
  };
  const listen = isSupervised ? () => {} : stop;
  const hear = (name: NodeJS.Signals | null) => {
    isOrphaned = name === null && !controller.signal.aborted;
    stop(name ?? "SIGTERM");
  };
  const stopListening = isSupervised ? onParentStop(hear) : () => {};
  const release = () => {
    stopListening();
    for (const name of SIGNALS) process.off(name, listen);
  };
  for (const name of SIGNALS) process.on(name, listen);
  return { signal: controller.signal, exitCode: () => exitCode, isOrphaned: () => isOrphaned, release };
}

/**
 * A command that a parent watches: see supervise.ts. It says that it lives and what it has come to, and stops when the parent says so, or
 * is gone.
 */

/** What a watched process tells its parent. */
export type Word =
  | { readonly kind: "alive" }
  /** The run is open in this folder. */
  | { readonly kind: "run"; readonly folder: string }
  /** It is a worker, which looks for its controller, and then one that has joined. */
  | { readonly kind: "joining" | "joined" }
  /** It is a server, and answers. */
  | { readonly kind: "listening" };

/** What the parent tells it. */
export interface StopWord {
  readonly kind: "stop";
  readonly signal: NodeJS.Signals;
}

/** Signs of life come this often; the parent takes a process for hung after many of them. */
export const ALIVE_MS = 10_000;

/** Tells the parent something, where there is one. */
export function tellParent(word: Word): void {
  // A parent that has just died is noticed as a disconnect; an error without a callback would end this process.
  if (process.connected === true) process.send!(word, () => {});
}

/** Whether somebody hears when the parent is gone, and ends what there is to end. */
let isHeard = false;

/** Gives signs of life until it is called off. A command that loses its parent before it has begun with anything ends at once. */
export function showLife(): () => void {
  const orphaned = () => {
    if (!isHeard) process.exit(1);
  };
  process.on("disconnect", orphaned);
  if (process.connected !== true) orphaned();
  tellParent({ kind: "alive" });
  const timer = setInterval(() => tellParent({ kind: "alive" }), ALIVE_MS).unref();
  return () => {
    clearInterval(timer);
    process.off("disconnect", orphaned);
  };
}

/**
 * Calls when the parent says stop, with the signal that it got, and with null when the parent is gone. Signals that come to this process itself are
 * left to the parent, which a terminal or a scheduler sends them to as well.
 */
export function onParentStop(stop: (signal: NodeJS.Signals | null) => void): () => void {
  const hear = (word: StopWord) => {
    if (word.kind === "stop") stop(word.signal);
  };
  const orphaned = () => stop(null);
  isHeard = true;
  process.on("message", hear);
  process.on("disconnect", orphaned);
  // Gone before anybody listened.
  if (process.connected !== true) orphaned();
  return () => {
    process.off("message", hear);
    process.off("disconnect", orphaned);
  };
}

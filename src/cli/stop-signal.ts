/** Ctrl-C: the first asks to stop, the second stops at once. */

/**
 * A signal that SIGINT and SIGTERM give; the next of them ends the process. It goes on listening after the first, because parts of
 * the terminal end a process that nobody listens for.
 */
export function stopSignal(onFirst: () => void): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const stop = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) {
      release();
      process.kill(process.pid, name);
      return;
    }
    onFirst();
    controller.abort();
  };
  const release = () => {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.off(name, stop);
  };
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, stop);
  return { signal: controller.signal, release };
}

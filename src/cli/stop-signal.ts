/** Ctrl-C: the first asks to stop, the second stops at once. */

/** A signal that SIGINT and SIGTERM give. After the first of them the system ends the process at the next, as it always does. */
export function stopSignal(onFirst: () => void): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const stop = () => {
    release();
    onFirst();
    controller.abort();
  };
  const release = () => {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.off(name, stop);
  };
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, stop);
  return { signal: controller.signal, release };
}

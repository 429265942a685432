/**
 * Stands before Node's own handling of errors that nobody caught. It is written in the functions that foreign code may have replaced
 * (`process.emit` among them), and ends the process, or the thread, where its handlers throw themselves.
 */
const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
const NAME = "_fatalException";

interface FatalWatch {
  /** Whether such an error is being handled now. */
  isHandling(): boolean;
  release(): void;
}

/** @param prepare called before such an error is handled */
export function watchFatal(prepare: () => void): FatalWatch {
  const before = getOwnPropertyDescriptor(process, NAME)!;
  const handle = before.value as (...args: unknown[]) => unknown;
  let isHandling = false;
  const value = (...args: unknown[]) => {
    isHandling = true;
    try {
      prepare();
      return apply(handle, process, args);
    } finally {
      isHandling = false;
    }
  };
  defineProperty(process, NAME, { value, writable: false, configurable: true });
  return { isHandling: () => isHandling, release: () => void defineProperty(process, NAME, before) };
}

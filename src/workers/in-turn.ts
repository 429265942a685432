/** An object whose calls run one after another, in the order in which they were made. */

/** The same methods; each waits until the one before has ended, well or not. */
export function inTurn<Host extends object>(host: Host): Host {
  let last: Promise<unknown> = Promise.resolve();
  return new Proxy(host, {
    get: (_, name) => {
      const method: unknown = Reflect.get(host, name);
      if (typeof method !== "function") return method;
      return (...args: unknown[]) => {
        const turn = last.then(() => method.apply(host, args));
        last = turn.catch(() => undefined);
        return turn;
      };
    },
  });
}

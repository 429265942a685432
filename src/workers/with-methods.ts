/**
 * An object in a worker with some of its methods replaced. One that is asked by name has every method and none to list, so it cannot be spread; here a
 * method that is added to the interface later needs no line.
 *
 * @param host methods that do not ask for `this`, as those of `Remote.ask`
 */
export function withMethods<Host extends object>(host: Host, changes: Partial<Host>): Host {
  return new Proxy(host, { get: (target, name) => Reflect.get(name in changes ? changes : target, name) as unknown });
}

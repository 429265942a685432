/**
 * The script beside a JavaScript solution: does what the examiner asks of it.
 *
 * As in Python, the solution can tamper with it, and gains no more than to answer with other data.
 */
import { javascriptWireSource } from "./javascript-wire.ts";

/** Evaluates to the function that answers the examiner. Runs before the solution, whose names it finds by indirect `eval`. */
export const javascriptServiceSource = `((tell, evaluate, createWire) => {
  delete globalThis.tell;
  const objects = [];
  const refer = (value) => {
    if (callbacks.has(value)) return { callback: callbacks.get(value) };
    const known = objects.indexOf(value);
    const number = known < 0 ? objects.push(value) - 1 : known;
    return { object: [number, typeof value === "function", String(value?.constructor?.name ?? "object")] };
  };
  const callbacks = new WeakMap();
  const referred = (tag, body) => {
    if (tag === "object") return objects[body];
    const callback = (...values) => {
      const [kind, result] = JSON.parse(tell(JSON.stringify([body, encode(values)])));
      if (kind === "throw") throw decode(result);
      return decode(result);
    };
    callbacks.set(callback, body);
    return callback;
  };
  const { encode, decode } = createWire((value) => callbacks.has(value), refer, referred);
  const textOf = (value) => { try { return JSON.stringify(encode(value)); } catch { return null; } };

  const isDefined = (name) => {
    try { return evaluate("typeof " + name) !== "undefined"; } catch { return false; }
  };
  const targetOf = (name) => {
    if (isDefined(name)) return evaluate(name);
    const owner = evaluate("new Solution()");
    return owner[name].bind(owner);
  };
  // The result, and the arguments that were changed in place.
  const call = (target, owner, values) => {
    const before = values.map((value) => typeof value === "object" && value !== null && !callbacks.has(value) ? textOf(value) : null);
    const finish = (kind) => (result) => {
      const message = [kind, encode(result), []];
      values.forEach((value, index) => {
        const after = before[index] === null ? null : textOf(value);
        if (after !== before[index]) message[2].push([index, JSON.parse(after)]);
      });
      return message;
    };
    const result = Reflect.apply(target, owner, values);
    return result instanceof Promise ? result.then(finish("resolve"), finish("reject")) : finish("value")(result);
  };
  const operations = {
    ready: () => null,
    names: (names) => names.filter(isDefined).map((name) => [name, evaluate(name)]),
    target: targetOf,
    construct: (target, values) => Reflect.construct(target, values),
    get: (target, key) => target[key],
    set: (target, key, value) => { target[key] = value; },
    keys: (target) => Object.keys(target),
    iterate: (target) => target[Symbol.iterator](),
    next: (target) => { const { done, value } = target.next(); return [done === true, value]; },
    isInstance: (target, value) => value instanceof target,
  };
  const answer = (text) => {
    const [kind, ...operands] = decode(JSON.parse(text));
    if (kind === "call") return call(...operands);
    return ["value", encode(operations[kind](...operands)), []];
  };
  const failed = (error) => ["throw", encode(error), []];
  return (text) => {
    try {
      const message = answer(text);
      if (message instanceof Promise) return message.then(JSON.stringify, (error) => JSON.stringify(failed(error)));
      return JSON.stringify(message);
    } catch (error) {
      return JSON.stringify(failed(error));
    }
  };
})(tell, eval, ${javascriptWireSource})`;

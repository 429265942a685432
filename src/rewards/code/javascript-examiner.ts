/**
 * The JavaScript program that runs tests against a solution in another realm, and reports by the `report` of the sandbox.
 *
 * Its rules are those of python-examiner.ts. Results that are promises are awaited in the solution's realm and are promises again here.
 * There are no timers in the sandbox: the time of single tests is not limited, only that of all together.
 */

import { stringifyExact } from "./exact-json.ts";
import type { ExaminerJob } from "./examiner-job.ts";
import { javascriptAssertSource } from "./javascript-assert.ts";
import { javascriptWireSource } from "./javascript-wire.ts";

/** The setup stands in it as text, so that the checks see its constants. */
export function javascriptExaminer(job: ExaminerJob): string {
  const text = JSON.stringify(stringifyExact(job));
  return `const runExaminer = ${examinerSource}(ask, report, ${javascriptWireSource}, ${javascriptAssertSource}, ${text});
${job.setup}
;runExaminer()`;
}

const examinerSource = String.raw`((send, write, createWire, assert, jobText) => {
  const job = JSON.parse(jobText);
  delete globalThis.ask;
  delete globalThis.report;
  const callbacks = [];
  const numbers = new WeakMap();
  const isOurs = (value) => (typeof value === "object" || typeof value === "function") && numbers.has(value);
  const refer = (value) => {
    if (numbers.has(value)) return { object: numbers.get(value) };
    if (typeof value !== "function") throw new TypeError("an object of the tests cannot be passed to the solution");
    const known = callbacks.indexOf(value);
    return { callback: known < 0 ? callbacks.push(value) - 1 : known };
  };
  const referred = (tag, body) => {
    if (tag === "callback" && Number.isInteger(body) && body in callbacks) return callbacks[body];
    if (tag !== "object") throw new TypeError("the solution sent an unknown value");
    return standIn(...body);
  };
  const { encode, decode } = createWire(isOurs, refer, referred);

  const ask = (...operands) => {
    const [kind, result, changes] = JSON.parse(send(JSON.stringify(encode(operands))));
    if (operands[0] === "call") takeChanges(operands[3], changes);
    if (kind === "throw") throw decode(result);
    if (kind === "resolve") return Promise.resolve(decode(result));
    if (kind === "reject") return Promise.reject(decode(result));
    return decode(result);
  };
  globalThis.answer = (text) => {
    try {
      const [number, values] = JSON.parse(text);
      return JSON.stringify(["value", encode(referred("callback", number)(...decode(values)))]);
    } catch (error) {
      return JSON.stringify(["throw", encode(error)]);
    }
  };

  // Arguments that the solution changed in place change here too, in the same objects.
  const takeChanges = (values, changes) => {
    for (const [index, change] of changes) {
      if (!Number.isInteger(index) || !(index in values)) throw new TypeError("the solution sent an unknown change");
      replace(values[index], decode(change));
    }
  };
  const replace = (old, current) => {
    if (Array.isArray(old) && Array.isArray(current)) {
      const items = current.map((each, index) => (index < old.length ? replace(old[index], each) : each));
      old.splice(0, old.length, ...items);
      return old;
    }
    if (old instanceof Map && current instanceof Map || old instanceof Set && current instanceof Set) {
      old.clear();
      for (const each of current) old instanceof Map ? old.set(...each) : old.add(each);
      return old;
    }
    const isRecord = (value) => typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
    if (!isRecord(old) || !isRecord(current)) return current;
    for (const key of Object.keys(old)) if (!Object.hasOwn(current, key)) delete old[key];
    for (const key of Object.keys(current)) {
      const value = Object.hasOwn(old, key) ? replace(old[key], current[key]) : current[key];
      Object.defineProperty(old, key, { value, writable: true, enumerable: true, configurable: true });
    }
    return old;
  };

  // An object of the solution: new each time, so that it is identical to nothing, and never turned into a primitive.
  const standIn = (number, isFunction, name) => {
    if (!Number.isInteger(number)) throw new TypeError("the solution sent an unknown value");
    const target = isFunction === true ? (function () {}).bind() : {};
    const refuse = () => { throw new TypeError("an object of the solution cannot be compared or converted; compare its properties"); };
    const iterate = function* () {
      for (const iterator = ask("iterate", proxy); ; ) {
        const [done, value] = ask("next", iterator);
        if (done) return;
        yield value;
      }
    };
    const symbols = new Map([
      [Symbol.toPrimitive, refuse],
      [Symbol.iterator, iterate],
      [Symbol.hasInstance, (value) => ask("isInstance", proxy, value) === true],
      [Symbol.toStringTag, String(name)],
    ]);
    const proxy = new Proxy(target, {
      get: (_, key) => (typeof key === "symbol" ? symbols.get(key) : ask("get", proxy, key)),
      set: (_, key, value) => { ask("set", proxy, key, value); return true; },
      has: (_, key) => typeof key === "string" && ask("keys", proxy).includes(key),
      ownKeys: () => ask("keys", proxy).map(String),
      getOwnPropertyDescriptor: (_, key) =>
        typeof key === "string" && ask("keys", proxy).includes(key)
          ? { value: ask("get", proxy, key), writable: true, enumerable: true, configurable: true }
          : undefined,
      getPrototypeOf: () => Object.prototype,
      apply: (_, owner, values) => ask("call", proxy, isOurs(owner) ? owner : undefined, values),
      construct: (_, values) => ask("construct", proxy, values),
    });
    numbers.set(proxy, number);
    return proxy;
  };

  // JSON with exact integers, as exact-json.ts reads it.
  const toJson = (value) => {
    if (value === undefined || value === null) return "null";
    if (typeof value === "bigint") return String(value);
    if (typeof value === "function" || (typeof value === "number" && !Number.isFinite(value))) {
      throw new TypeError("returned " + (typeof value === "function" ? "a function" : value) + ", which JSON cannot hold");
    }
    if (typeof value !== "object" || value instanceof Date) return JSON.stringify(value);
    if (Array.isArray(value)) return "[" + value.map(toJson).join(",") + "]";
    if (!isOurs(value) && Object.getPrototypeOf(value) !== Object.prototype) {
      throw new TypeError("returned a " + value.constructor.name + ", which JSON cannot hold");
    }
    return "{" + Object.keys(value).map((key) => JSON.stringify(key) + ":" + toJson(value[key])).join(",") + "}";
  };

  const say = (kind, key, text) => write('{"kind":"' + kind + '"' + (key === undefined ? "" : ',"' + key + '":' + text) + "}\n");
  const describe = (error) => JSON.stringify(String(isOurs(error) ? "an object was thrown" : error).slice(0, 2000));
  const attempt = async (act) => {
    try {
      say(...(await act()));
      return true;
    } catch (error) {
      // The end of the time can be caught here; the sandbox tells it better.
      if (!String(error).includes("InternalError: interrupted")) say("error", "error", describe(error));
      return false;
    }
  };

  // The head of a task ends inside a function; functions that it defines besides are part of the tests.
  const runPrefix = () => {
    for (const ending of ["", "}", "};"]) {
      try { (0, eval)(job.prefix + ending); break; } catch (error) { if (!(error instanceof SyntaxError)) break; }
    }
    if (job.functionName !== null) delete globalThis[job.functionName];
  };
  // Words of the tests that nothing here defines are names of the solution.
  const takeNames = () => {
    const words = [job.functionName ?? "", job.setup, ...job.checks].join("\n").match(/[\p{L}_$][\p{L}\p{N}_$]*/gu) ?? [];
    const names = [...new Set(words)].filter((word) => !(word in globalThis));
    for (const [name, value] of ask("names", names)) {
      if (names.includes(name)) Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
    }
  };

  Object.defineProperty(globalThis, "assert", { value: assert, writable: true, configurable: true });
  const plainRequire = globalThis.require;
  globalThis.require = (name) => (/^(?:node:)?assert(?:\/strict)?$/.test(name) ? assert : plainRequire(name));
  let failure = null;
  try {
    ask("ready");
    if (job.kind === "checks") {
      runPrefix();
      takeNames();
    }
  } catch (error) {
    failure = String(error);
  }
  const AsyncFunction = (async () => {}).constructor;
  return async () => {
    if (failure !== null) return say("broken", "error", JSON.stringify(failure.split("\n")[0].slice(0, 2000)));
    const tests = [
      ...job.checks.map((check) => async () => { await new AsyncFunction(check)(); return ["passed"]; }),
      ...job.calls.map((values) => async () => ["value", "value", toJson(await ask("target", job.functionName)(...values))]),
    ];
    for (const act of tests) if (!(await attempt(act)) && job.stopsEarly) return;
  };
})`;

/**
 * How JavaScript values pass between a solution and its tests: as JSON, copied by type. See python-wire.ts; the idea is the same.
 *
 * The source below runs in both realms. Decoding builds new values of the reader's own realm from the text alone, property by property,
 * so that no prototype, getter, proxy or `toJSON` of a solution reaches the tests.
 */

/**
 * An expression: a function of `isReferred(value)`, which tells what stands for a value of the other side, `refer(value)`, which gives
 * the tagged number of what is not copied, and `referred(tag, body)`, which gives what the other side means by one. Its result is
 * `{ encode, decode }`.
 */
export const javascriptWireSource = `((isReferred, refer, referred) => {
  const MAX_DEPTH = 200;
  const errors = { Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError };
  const typed = { Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array };
  const put = (target, key, value) =>
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });

  const encode = (value, depth = 0) => {
    if (value === null || typeof value === "boolean" || typeof value === "string") return value;
    if (value === undefined) return { undefined: 0 };
    if (typeof value === "bigint") return { bigint: String(value) };
    if (typeof value === "number") {
      return Number.isFinite(value) && !Object.is(value, -0) ? value : { number: Object.is(value, -0) ? "-0" : String(value) };
    }
    if (depth > MAX_DEPTH) throw new RangeError("a value nested more than " + MAX_DEPTH + " deep");
    const all = (values) => Array.from(values, (each) => encode(each, depth + 1));
    if (isReferred(value)) return refer(value);
    if (Array.isArray(value)) return all(value);
    if (typeof value === "object") {
      const prototype = Object.getPrototypeOf(value);
      if (prototype === Object.prototype || prototype === null) {
        return { record: Object.keys(value).map((key) => [key, encode(value[key], depth + 1)]) };
      }
      if (prototype === Map.prototype) return { map: Array.from(value, all) };
      if (prototype === Set.prototype) return { set: all(value) };
      if (prototype === Date.prototype) return { date: encode(value.getTime()) };
      if (prototype === RegExp.prototype) return { regexp: [value.source, value.flags] };
      if (value instanceof Error) return { error: [String(value.name), String(value.message)] };
      if (ArrayBuffer.isView(value) && value.constructor.name in typed) return { typed: [value.constructor.name, all(value)] };
    }
    return refer(value);
  };

  const decode = (data, depth = 0) => {
    if (data === null || typeof data !== "object") return data;
    if (depth > MAX_DEPTH + 2) throw new RangeError("a value nested more than " + MAX_DEPTH + " deep");
    const each = (part) => decode(part, depth + 1);
    if (Array.isArray(data)) return data.map(each);
    const [tag] = Object.keys(data);
    const body = data[tag];
    switch (tag) {
      case "undefined": return undefined;
      case "bigint": return BigInt(body);
      case "number": return body === "-0" ? -0 : Number(body);
      case "record": return body.reduce((record, [key, value]) => put(record, String(key), each(value)), {});
      case "map": return new Map(body.map((pair) => pair.map(each)));
      case "set": return new Set(body.map(each));
      case "date": return new Date(each(body));
      case "regexp": return new RegExp(String(body[0]), String(body[1]));
      case "typed": return typed[body[0]].from(body[1].map(each));
      case "error": {
        const [name, message] = body.map(String);
        const error = new (Object.hasOwn(errors, name) ? errors[name] : Error)(message);
        return error.name === name ? error : put(error, "name", name);
      }
      default: return referred(tag, body);
    }
  };

  return { encode, decode };
})`;

/**
 * A copy that shares nothing with its original, as `structuredClone` makes it.
 *
 * Plain data is copied here, in a tenth of that time: a rollout has thousands of it.
 */

/** Deeper than any message or row of data; a structure that holds itself is endlessly deep. */
const MAX_DEPTH = 64;

export function copyData<Value>(value: Value): Value {
  const copy = copyPlain(value, 0);
  return (copy === NOT_PLAIN ? structuredClone(value) : copy) as Value;
}

const NOT_PLAIN = Symbol();

/** NOT_PLAIN for what is not made of lists, plain objects and primitives. */
function copyPlain(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null)
    return typeof value === "function" || typeof value === "symbol" ? NOT_PLAIN : value;
  if (depth === MAX_DEPTH) return NOT_PLAIN;
  if (Array.isArray(value)) return copyList(value, depth);
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype ? copyFields(value as Readonly<Record<string, unknown>>, depth) : NOT_PLAIN;
}

function copyList(list: readonly unknown[], depth: number): unknown {
  const copy: unknown[] = [];
  for (let i = 0; i < list.length; i++) {
    const item = copyPlain(list[i], depth + 1);
    if (item === NOT_PLAIN) return NOT_PLAIN;
    copy.push(item);
  }
  return copy;
}

function copyFields(fields: Readonly<Record<string, unknown>>, depth: number): unknown {
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(fields)) {
    const item = copyPlain(fields[name], depth + 1);
    // Setting this one would change what the copy is.
    if (item === NOT_PLAIN || name === "__proto__") return NOT_PLAIN;
    copy[name] = item;
  }
  return copy;
}

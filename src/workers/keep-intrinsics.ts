/**
 * What all code of a thread shares, kept as it is now: foreign code that replaces `Array.prototype.push` would break the thread's own.
 *
 * Everything that is called after the start was taken before it, since by then nothing else can be relied on.
 */
import { EventEmitter } from "node:events";

const { getOwnPropertyDescriptor, defineProperty, deleteProperty, ownKeys } = Reflect;

/** What the two ends of a line are written with. A thread of foreign code needs no more, and may replace `Date` and timers for itself. */
export const LANGUAGE = [
  ...["Object", "Function", "Array", "String", "Symbol", "Error", "Promise", "Proxy", "Reflect", "JSON"],
  ...["Map", "Set", "WeakMap", "WeakSet", "ArrayBuffer", "Int32Array"],
  ...["AbortController", "AbortSignal", "EventTarget", "structuredClone", "queueMicrotask"],
];

/** What a controller is written with, beside the language. */
export const PLATFORM = [
  ...["Number", "Boolean", "BigInt", "Math", "Date", "RegExp", "WeakRef", "FinalizationRegistry"],
  ...["Atomics", "DataView", "Uint8Array", "BigInt64Array", "Float32Array", "Float64Array"],
  ...["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "clearImmediate"],
  ...[
    "Buffer",
    "TextEncoder",
    "TextDecoder",
    "URL",
    "URLSearchParams",
    "Performance",
    "performance",
    "console",
    "process",
  ],
  ...["fetch", "Headers", "Request", "Response", "ReadableStream", "Blob", "FormData", "Event", "MessageChannel"],
];

interface Kept {
  readonly name: string;
  readonly holder: object;
  readonly key: PropertyKey;
  /** Null where there is none: the function is inherited. */
  readonly descriptor: PropertyDescriptor | null;
}

interface Intrinsics {
  /** Puts back what was replaced, and returns a name of it; null where nothing was. */
  restore(): string | null;
}

/**
 * @param names globals to keep
 * @param giveUp called where something cannot be put back
 */
export function keepIntrinsics(names: readonly string[], giveUp: () => void): Intrinsics {
  // Parts first: Node makes some of these globals when they are first asked for.
  const kept = [...names.flatMap(keepParts), ...names.map((name) => keep("globalThis", globalThis, name))];
  for (const name of ["stdout", "stderr"] as const) kept.push(keep(`process.${name}`, process[name], "write"));
  for (const [name, holder] of Object.entries(unnamed)) kept.push(...keepFunctions(name, holder));
  const ofEveryObject: Record<PropertyKey, true> = Object.create(null);
  for (const key of ownKeys(Object.prototype)) ofEveryObject[key] = true;
  const { prototype } = Object;

  function removeAdded(): string | null {
    const keys = ownKeys(prototype);
    let added: string | null = null;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!;
      if (ofEveryObject[key] === true) continue;
      added = typeof key === "string" ? `Object.prototype.${key}` : "a symbol of Object.prototype";
      if (!deleteProperty(prototype, key)) giveUp();
    }
    return added;
  }

  return {
    restore: () => {
      let replaced = removeAdded();
      for (let i = 0; i < kept.length; i++) {
        const { name, holder, key, descriptor } = kept[i]!;
        const now = getOwnPropertyDescriptor(holder, key);
        if (now?.value === descriptor?.value && now?.get === descriptor?.get) continue;
        replaced = name;
        if (!(descriptor === null ? deleteProperty(holder, key) : defineProperty(holder, key, descriptor))) giveUp();
      }
      return replaced;
    },
  };
}

/** What loops and spread take their values from, and what arrays of numbers and emitters of events have in common: no global has it. */
const unnamed = {
  "iterator of arrays": Object.getPrototypeOf([].values()) as object,
  "iterator of maps": Object.getPrototypeOf(new Map().values()) as object,
  "iterator of sets": Object.getPrototypeOf(new Set().values()) as object,
  "iterator of strings": Object.getPrototypeOf(""[Symbol.iterator]()) as object,
  "TypedArray.prototype": Object.getPrototypeOf(Int32Array.prototype) as object,
  "EventEmitter.prototype": EventEmitter.prototype as object,
};

/** The functions of a global object, and of what it makes or inherits. */
function keepParts(name: string): Kept[] {
  const value = Reflect.get(globalThis, name) as { readonly prototype?: object };
  const { prototype } = value;
  return [
    ...keepFunctions(name, value),
    ...(prototype === undefined ? [] : keepFunctions(`${name}.prototype`, prototype)),
  ];
}

function keepFunctions(name: string, holder: object): Kept[] {
  return [...functionsOf(holder)].map((key) => keep(name, holder, key));
}

/** Names of what an object has or inherits, short of what all objects and functions do. */
function functionsOf(holder: object): ReadonlySet<PropertyKey> {
  const keys = new Set<PropertyKey>();
  let place: object | null = holder;
  do {
    for (const key of ownKeys(place)) {
      const { value, get } = getOwnPropertyDescriptor(place, key)!;
      // Programs set this one on purpose, and it is called for texts only.
      if ((typeof value === "function" || get !== undefined) && key !== "prepareStackTrace") keys.add(key);
    }
    place = Object.getPrototypeOf(place);
  } while (place !== null && place !== Object.prototype && place !== Function.prototype);
  return keys;
}

function keep(place: string, holder: object, key: PropertyKey): Kept {
  const found = getOwnPropertyDescriptor(holder, key);
  // Without a prototype: what is added to every object would count as part of it.
  const descriptor = found === undefined ? null : (Object.assign(Object.create(null), found) as PropertyDescriptor);
  return { name: place === "globalThis" ? String(key) : `${place}.${String(key)}`, holder, key, descriptor };
}

/**
 * What all code of a thread shares, kept as it is now: foreign code that replaces `Array.prototype.push` would break the thread's own.
 *
 * Holds the functions that the two ends of a line are written with, not those that tests like to replace, such as `Date` and timers.
 * Everything that is called after the start was taken before it, since by then nothing else can be relied on.
 */
const { getOwnPropertyDescriptor, defineProperty, deleteProperty, ownKeys } = Reflect;

const NAMES = [
  ...["Object", "Function", "Array", "String", "Symbol", "Error", "Promise", "Proxy", "Reflect", "JSON"],
  ...["Map", "Set", "WeakMap", "WeakSet", "ArrayBuffer", "Int32Array"],
  ...["AbortController", "AbortSignal", "EventTarget", "structuredClone", "queueMicrotask"],
];

interface Kept {
  readonly name: string;
  readonly holder: object;
  readonly key: PropertyKey;
  readonly descriptor: PropertyDescriptor;
}

interface Intrinsics {
  /** Puts back what was replaced, and returns a name of it; null where nothing was. */
  restore(): string | null;
}

/** @param giveUp called where something cannot be put back */
export function keepIntrinsics(giveUp: () => void): Intrinsics {
  // Parts first: Node makes some of these globals when they are first asked for.
  const kept = [...NAMES.flatMap(keepParts), ...NAMES.map((name) => keep("globalThis", globalThis, name))];
  for (const [name, value] of Object.entries(iterators)) kept.push(keep(name, Object.getPrototypeOf(value), "next"));
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
        if (now !== undefined && now.value === descriptor.value && now.get === descriptor.get) continue;
        replaced = name;
        if (!defineProperty(holder, key, descriptor)) giveUp();
      }
      return replaced;
    },
  };
}

/** Where loops and spread take their values from. */
const iterators = {
  "iterator of arrays": [].values(),
  "iterator of maps": new Map().values(),
  "iterator of sets": new Set().values(),
};

/** The functions of a global object, and of what it makes. */
function keepParts(name: string): Kept[] {
  const value = Reflect.get(globalThis, name) as { readonly prototype?: object };
  const { prototype } = value;
  return [
    ...keepFunctions(name, value),
    ...(prototype === undefined ? [] : keepFunctions(`${name}.prototype`, prototype)),
  ];
}

function keepFunctions(name: string, holder: object): Kept[] {
  const keys = ownKeys(holder).filter((key) => {
    const { value, get } = getOwnPropertyDescriptor(holder, key)!;
    // Programs set this one on purpose, and it is called for texts only.
    return (typeof value === "function" || get !== undefined) && key !== "prepareStackTrace";
  });
  return keys.map((key) => keep(name, holder, key));
}

function keep(place: string, holder: object, key: PropertyKey): Kept {
  // Without a prototype: what is added to every object would count as part of it.
  const descriptor: PropertyDescriptor = Object.assign(Object.create(null), getOwnPropertyDescriptor(holder, key));
  return { name: place === "globalThis" ? String(key) : `${place}.${String(key)}`, holder, key, descriptor };
}

/**
 * What is taken out of the arguments and results of a call because structured clone cannot carry it, and put back on the other side.
 *
 * Functions, signals, errors and cargo (tensors) are found in arguments, and below them in plain objects and values of maps. Lists
 * are not looked into: they are data, and long.
 */
import { type ErrorMessage, packError, unpackError } from "./error-message.ts";

/** Values of a class of its own that cross in a form of their own: tensors, which hand over their memory. */
export interface Carrier<Value extends object = object> {
  carries(value: object): value is Value;
  /** Plain data that stands for the value. */
  load(value: Value): unknown;
  /** The value on the other side. It belongs to whoever unloads it. */
  unload(cargo: unknown): Value;
  /** Frees cargo that nobody will unload. Does nothing for cargo that was unloaded. */
  discard(cargo: unknown): void;
  /** Frees a value that was unloaded for the length of a call, or that was given away as its result. */
  free(value: Value): void;
}

/** One thing that was taken out, and where it belongs. */
export type Item = { readonly path: readonly unknown[] } & (
  | { readonly kind: "function"; readonly number: number; readonly isOneWay: boolean }
  | { readonly kind: "signal"; readonly number: number; readonly isAborted: boolean }
  | { readonly kind: "error"; readonly error: ErrorMessage }
  | { readonly kind: "cargo"; readonly cargo: unknown }
);

/** Plain data, what was taken out of it, and the buffers that are handed over with it. */
interface Luggage {
  readonly value: unknown;
  readonly items: readonly Item[];
  readonly moved: readonly ArrayBuffer[];
  /** The values whose cargo travels; they are still whole on this side. */
  readonly loaded: readonly object[];
}

const NONE: readonly never[] = [];

/** Where functions and signals stay, which cannot leave: both give a number to call them by. */
interface Lender {
  readonly lendFunction: (value: (...args: never[]) => unknown) => number;
  readonly lendSignal: (signal: AbortSignal) => number;
}

const movable = new WeakSet<ArrayBufferLike>();
const oneWayFunctions = new WeakSet<object>();

/** Marks an array as given away: a call that it goes into takes its memory along instead of copying it. */
export function moved<Value extends ArrayBufferView<ArrayBuffer>>(array: Value): Value {
  movable.add(array.buffer);
  return array;
}

/** Marks a callback as one whose end nobody waits for: it is told, in order, and not asked. */
export function oneWay<Args extends unknown[]>(callback: (...args: Args) => void): (...args: Args) => void {
  oneWayFunctions.add(callback);
  return callback;
}

/** Takes out what cannot be cloned. Without a lender, functions and signals stay in, and the post of them fails. */
export function packLuggage(value: unknown, carrier: Carrier | undefined, lender?: Lender): Luggage {
  // Most of what crosses, such as every token of a reply, can be sent as it is.
  if (isOrdinary(value, lender !== undefined)) return { value, items: NONE, moved: NONE, loaded: NONE };
  const items: Item[] = [];
  const loaded: object[] = [];
  const buffers = new Set<ArrayBuffer>();
  const path: unknown[] = [];

  function pack(value: unknown): unknown {
    if (typeof value === "function" && lender !== undefined) {
      const number = lender.lendFunction(value as (...args: never[]) => unknown);
      return take({ path: [...path], kind: "function", number, isOneWay: oneWayFunctions.has(value) });
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    if (ArrayBuffer.isView(value)) {
      if (movable.has(value.buffer)) buffers.add(value.buffer as ArrayBuffer);
      return value;
    }
    if (isPlain(value)) return packFields(value as Readonly<Record<string, unknown>>);
    if (value instanceof Map) return packEntries(value);
    if (value instanceof AbortSignal && lender !== undefined)
      return take({ path: [...path], kind: "signal", number: lender.lendSignal(value), isAborted: value.aborted });
    if (value instanceof Error) return take({ path: [...path], kind: "error", error: packError(value) });
    if (carrier?.carries(value)) {
      const cargo = carrier.load(value);
      loaded.push(value);
      return take({ path: [...path], kind: "cargo", cargo });
    }
    return value;
  }

  function packAt(key: unknown, value: unknown): unknown {
    path.push(key);
    const packed = pack(value);
    path.pop();
    return packed;
  }

  function take(item: Item): null {
    items.push(item);
    return null;
  }

  // What is passed on unchanged is not copied: most arguments are plain data all the way down.
  function packFields(fields: Readonly<Record<string, unknown>>): object {
    let copy: Record<string, unknown> | undefined;
    for (const name of Object.keys(fields)) {
      const packed = packAt(name, fields[name]);
      if (packed === fields[name]) continue;
      copy ??= { ...fields };
      copy[name] = packed;
    }
    return copy ?? fields;
  }

  function packEntries(map: ReadonlyMap<unknown, unknown>): ReadonlyMap<unknown, unknown> {
    let copy: Map<unknown, unknown> | undefined;
    for (const [key, value] of map) {
      const packed = packAt(key, value);
      if (packed === value) continue;
      copy ??= new Map(map);
      copy.set(key, packed);
    }
    return copy ?? map;
  }

  try {
    // A list of arguments is the one list that is looked into, and only here.
    const packed = Array.isArray(value) && lender !== undefined ? value.map((one, i) => packAt(i, one)) : pack(value);
    return { value: packed, items, moved: [...buffers], loaded };
  } catch (error) {
    discardItems(items, carrier);
    throw error;
  }
}

/** Frees the cargo of luggage that nobody will unpack. */
export function discardItems(items: readonly Item[], carrier: Carrier | undefined): void {
  for (const item of items) if (item.kind === "cargo") carrier?.discard(item.cargo);
}

/** Puts everything back in its place, as `open` makes it. */
export function unpackLuggage(value: unknown, items: readonly Item[], open: (item: Item) => unknown): unknown {
  let root = value;
  for (const item of items) {
    const last = item.path.at(-1);
    const inside = item.path.slice(0, -1).reduce(lookInto, root);
    const opened = open(item);
    if (item.path.length === 0) root = opened;
    else if (inside instanceof Map) inside.set(last, opened);
    else (inside as Record<string, unknown>)[last as string] = opened;
  }
  return root;
}

/** What an item is where nobody lends anything: the error or the cargo itself. */
export function openItem(item: Item, carrier: Carrier | undefined): unknown {
  if (item.kind === "error") return unpackError(item.error);
  return item.kind === "cargo" ? carrier?.unload(item.cargo) : undefined;
}

function lookInto(value: unknown, key: unknown): unknown {
  return value instanceof Map ? value.get(key) : (value as Record<string, unknown>)[key as string];
}

/** Whether there is nothing to take out and nothing to hand over. Looks where `packLuggage` looks. */
function isOrdinary(value: unknown, isArguments = false): boolean {
  if (typeof value === "function") return false;
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return !isArguments || value.every((one) => isOrdinary(one));
  if (ArrayBuffer.isView(value)) return !movable.has(value.buffer);
  if (!isPlain(value)) return false;
  for (const name in value) if (!isOrdinary((value as Readonly<Record<string, unknown>>)[name])) return false;
  return true;
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

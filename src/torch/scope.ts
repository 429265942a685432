/**
 * Memory is owned, not collected: a scope frees what a synchronous block made, except what the block returns.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { native } from "./binding.ts";
import { countScope, currentScopeDepth, recordHandles, TensorHandle } from "./tensor-handle.ts";

/**
 * Runs `body` and frees every tensor it made, except those in the value it returns (found in arrays, plain objects,
 * maps and sets, any depth) and those passed to `keep`. Returned tensors belong to the enclosing scope, if there is one.
 *
 * The block is synchronous: a scope that returned a promise would free tensors that are still in use.
 *
 * @example const loss = tensorScope(() => model.forward(ids).mean().item());
 */
export function tensorScope<T>(body: () => T): T {
  native.enterScope();
  let survivors: TensorHandle[] = [];
  try {
    const result = expectSynchronous("tensorScope", countScope(body));
    survivors = tensorsIn(result);
    return result;
  } finally {
    native.leaveScope(survivors.map((tensor) => tensor.handle));
    if (currentScopeDepth() === 0) for (const tensor of survivors) tensor.leaveToCollector();
  }
}

/** A scope that outlives the block it was made by. */
export interface HeldScope<T> {
  readonly result: T;
  /** Frees everything that the block made. */
  end(): void;
}

/**
 * Runs `body`, and frees what it made when `end` is called rather than at once: for blocks that overlap, of which the first to begin is not the
 * last to end.
 */
export function heldScope<T>(body: () => T): HeldScope<T> {
  const made = new Set<TensorHandle>();
  const result = tensorScope(() => {
    const value = recordHandles(made, body);
    keep([...made].filter((tensor) => !tensor.isDisposed));
    return value;
  });
  return {
    result,
    end: () => {
      for (const tensor of made) tensor.dispose();
    },
  };
}

/**
 * Takes tensors out of every enclosing scope: parameters, optimizer state, caches. Their owner disposes them, or the
 * garbage collector does.
 */
export function keep<T>(value: T): T {
  if (currentScopeDepth() === 0) return value;
  for (const tensor of tensorsIn(value)) {
    native.pin(tensor.handle);
    tensor.leaveToCollector();
  }
  return value;
}

/** Refuses the promise of an async block: what holds for the block ends before an async function does its work. */
export function expectSynchronous<T>(name: string, result: T): T {
  if (!(result instanceof Promise)) return result;
  throw new RerollError(
    "ASYNC_SCOPE",
    `${name} got a function that returns a promise. A scope is synchronous: await outside of it.`,
  );
}

function tensorsIn(value: unknown): TensorHandle[] {
  if (typeof value !== "object" || value === null) return [];
  if (value instanceof TensorHandle) return [value];
  const seen = new Set<object>();
  collect(value, seen);
  return [...seen].filter((item) => item instanceof TensorHandle);
}

// Values may hold each other in a circle, so everything is looked at once.
function collect(value: unknown, seen: Set<object>): void {
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  seen.add(value);
  if (Array.isArray(value) || value instanceof Set) for (const item of value) collect(item, seen);
  else if (value instanceof Map) for (const item of value.values()) collect(item, seen);
  else if (isPlainObject(value)) for (const item of Object.values(value)) collect(item, seen);
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

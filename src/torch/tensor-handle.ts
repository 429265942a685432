/**
 * The part of a tensor that the binding knows: a number in the addon's table, and who frees it.
 *
 * Inside a scope the addon frees what the scope made. Outside, the garbage collector does, when it gets to it: a safety
 * net, not a plan. See scope.ts.
 */
import { native } from "./binding.ts";

let scopeDepth = 0;
/** Where new handles are listed while scopes own them, if anywhere. */
let list: Set<TensorHandle> | null = null;

// The callback gets the handle, never the object. A handle that was disposed in the meantime is stale: no harm.
const collected = new FinalizationRegistry<number>((handle) => native.release(handle));

/** The base of Tensor: a handle, and what happens to it. */
export class TensorHandle {
  readonly handle: number;

  constructor(handle: number) {
    this.handle = handle;
    list?.add(this);
    if (scopeDepth === 0) this.leaveToCollector();
  }

  /** Frees the tensor now. Using it afterwards is an error; disposing of it again is not. */
  dispose(): void {
    native.release(this.handle);
  }

  /** Whether the tensor was freed, by dispose() or by the end of its scope. */
  get isDisposed(): boolean {
    return !native.isLive(this.handle);
  }

  /** Called when no scope owns the tensor any more. Once is enough: a parameter leaves many scopes. */
  leaveToCollector(): void {
    list?.delete(this);
    if (native.track(this.handle)) collected.register(this, this.handle);
  }
}

/** Runs `body` with every tensor it makes owned by the innermost scope of the addon, which the caller has entered. */
export function countScope<T>(body: () => T): T {
  scopeDepth++;
  try {
    return body();
  } finally {
    scopeDepth--;
  }
}

/** Runs `body` and lists every handle it makes, except those that are kept. */
export function recordHandles<T>(into: Set<TensorHandle>, body: () => T): T {
  const before = list;
  list = into;
  try {
    return body();
  } finally {
    list = before;
  }
}

/** The number of scopes that enclose the running code. */
export function currentScopeDepth(): number {
  return scopeDepth;
}

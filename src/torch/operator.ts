/**
 * Operators of libtorch by dispatcher name, typed by their schemas.
 *
 * `op("aten::add.Tensor")` returns a function with that operator's signature. All operators of the loaded libtorch are
 * reachable; which exist depends on its version, so ask `hasOp` before using a new one.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { type NativeOperator, native } from "./binding.ts";
import type { Operators } from "./generated/operators.ts";
import { TensorHandle } from "./tensor-handle.ts";
import { uncheckedOperators } from "./unchecked-operators.ts";

/** Whether the loaded libtorch has this operator. */
export function hasOp(name: string): boolean {
  return lookUp(name) !== null;
}

export interface OperatorOptions {
  /**
   * The caller has checked the arguments. Needed for operators in which libtorch crashes on wrong ones: see
   * unchecked-operators.ts. Default false.
   */
  readonly isUnchecked?: boolean;
}

/** The operator of this name. Where the loaded libtorch lacks it, calling the result throws. */
export function op<Name extends keyof Operators>(name: Name, options: OperatorOptions = {}): Operators[Name] {
  // The generated signatures are the schemas, which the addon checks again on every call.
  return dynamicOp(name, options) as unknown as Operators[Name];
}

/** Any operator by name, even one that the generated types do not know. */
export function dynamicOp(
  name: string,
  { isUnchecked = false }: OperatorOptions = {},
): (...args: unknown[]) => unknown {
  if (!isUnchecked && uncheckedOperators.has(name)) return refused(name);
  let operator = operators.get(name);
  if (operator === undefined) {
    operator = lookedUpOnCall(name);
    operators.set(name, operator);
  }
  return operator;
}

/** Called once by tensor.ts: how a handle becomes a Tensor. */
export function setTensorClass(create: (handle: number) => TensorHandle): void {
  wrap = create;
}

/** An argument as the addon takes it: tensors and generators by handle, everything else as it is. */
function unwrap(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof TensorHandle || value instanceof ObjectHandle) return value.handle;
  if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(unwrap);
  return value;
}

/** An object of the addon that is not a tensor. */
export class ObjectHandle {
  readonly handle: number;

  constructor(handle: number) {
    this.handle = handle;
    objectsCollected.register(this, handle);
  }

  /** Frees the object now. Using it afterwards is an error. */
  dispose(): void {
    native.releaseObject(this.handle);
  }
}

const objectsCollected = new FinalizationRegistry<number>((handle) => native.releaseObject(handle));
const found = new Map<string, NativeOperator | null>();
const operators = new Map<string, (...args: unknown[]) => unknown>();
let wrap: (handle: number) => TensorHandle = (handle) => new TensorHandle(handle);

function lookUp(name: string): NativeOperator | null {
  let operator = found.get(name);
  if (operator === undefined) {
    operator = native.operator(name);
    found.set(name, operator);
  }
  return operator;
}

function refused(name: string): () => never {
  return () => {
    throw new RerollError(
      "UNCHECKED_OPERATOR",
      `libtorch does not check the arguments of "${name}": wrong ones can end the process. ` +
        "Check them, then ask for the operator with { isUnchecked: true }.",
    );
  };
}

function missing(name: string): RerollError {
  return new RerollError(
    "UNKNOWN_OPERATOR",
    `libtorch ${native.torchVersion} has no operator "${name}". Names look like "aten::add.Tensor"; ` +
      "hasOp(name) tells whether one exists.",
  );
}

/**
 * An operator that is looked up when it is first called: files name theirs when they are imported, which must not load the addon.
 *
 * One tensor is by far the most common result, and most operators take few arguments: those paths avoid rest arrays.
 */
function lookedUpOnCall(name: string): (...args: unknown[]) => unknown {
  let call: NativeOperator["call"];
  let numTaken: number | undefined;
  let callAny: (...args: unknown[]) => unknown;
  return function operator(a?: unknown, b?: unknown, c?: unknown) {
    if (numTaken === undefined) {
      const found = lookUp(name);
      if (found === null) throw missing(name);
      call = found.call;
      callAny = withResults(found);
      numTaken = found.results === "T" ? found.numArguments : 0;
    }
    if (numTaken === 1) return wrapOne(call(unwrap(a)));
    if (numTaken === 2) return wrapOne(call(unwrap(a), unwrap(b)));
    if (numTaken === 3) return wrapOne(call(unwrap(a), unwrap(b), unwrap(c)));
    // biome-ignore lint/complexity/noArguments: libtorch counts the arguments, and a rest array would cost the paths above.
    return callAny(...arguments);
  };
}

function withResults({ call, results }: NativeOperator): (...args: unknown[]) => unknown {
  if (results.length === 0) return (...args) => void call(...args.map(unwrap));
  if (results.length === 1) {
    const wrapResult = wrapperFor(results);
    return (...args) => wrapResult(call(...args.map(unwrap)));
  }
  const wrappers = [...results].map(wrapperFor);
  return (...args) => {
    const values = call(...args.map(unwrap)) as unknown[];
    return wrappers.map((wrapResult, i) => wrapResult(values[i]));
  };
}

function wrapperFor(kind: string): (value: unknown) => unknown {
  if (kind === "T") return wrapOne;
  if (kind === "L") return (value) => (value as unknown[]).map(wrapOne);
  if (kind === "O") return (value) => new ObjectHandle(value as number);
  return (value) => value;
}

function wrapOne(value: unknown): TensorHandle | null {
  return typeof value === "number" ? wrap(value) : null;
}

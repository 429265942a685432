/**
 * One QuickJS runtime with its globals, and the few ways in and out of it.
 *
 * A program reaches nothing of this side but the functions it is offered, which take a text and give one. What it throws becomes a
 * `RealmError`, described inside the realm as text, so that no structure of a program is ever walked out here.
 */
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime, QuickJSWASMModule } from "quickjs-emscripten";
import { describeErrorSource, preludeSource } from "./javascript-prelude.ts";

/** What a program threw. */
export class RealmError extends Error {
  /** The status of `process.exit`, when that ended the program. */
  readonly exitCode: number | null;
  readonly isOutOfMemory: boolean;

  constructor(message: string, exitCode: number | null = null) {
    super(message.trimEnd());
    this.exitCode = exitCode;
    this.isOutOfMemory = message.startsWith("InternalError: out of memory");
  }
}

interface RealmOptions {
  readonly memoryBytes: number;
  readonly stdin: string;
  /** Whether the program must stop now. QuickJS asks this all the time. */
  readonly isOver: () => boolean;
  readonly write: (isError: boolean, text: string) => void;
}

export interface Realm {
  /** Defines a global function. What `act` throws as a `RealmError` is an Error in the realm. */
  readonly offer: (name: string, act: (text: string) => string) => void;
  /** Runs a script and what it leaves for later. */
  readonly evaluate: (code: string, fileName: string) => void;
  /** Runs a script and keeps its value. */
  readonly keep: (code: string, fileName: string) => QuickJSHandle;
  /** Keeps a global. */
  readonly find: (name: string) => QuickJSHandle;
  /** Calls a function of text, and waits when it gives a promise. */
  readonly call: (target: QuickJSHandle, text: string) => string;
  readonly close: () => void;
}

/** Taken from the 5 MiB that the stack of the WebAssembly module has. */
const STACK_BYTES = 4 * 2 ** 20;
/** Describing an error runs code of the program, such as getters, maybe after its limits: so often may QuickJS look. */
const DESCRIBE_LOOKS = 1000;
const DESCRIBE_BYTES = 2 ** 22;

export function openRealm(quickjs: QuickJSWASMModule, options: RealmOptions): Realm {
  return new QuickJSRealm(quickjs, options);
}

class QuickJSRealm implements Realm {
  readonly #runtime: QuickJSRuntime;
  readonly #context: QuickJSContext;
  readonly #options: RealmOptions;
  readonly #kept: QuickJSHandle[] = [];
  readonly #describe: QuickJSHandle;

  constructor(quickjs: QuickJSWASMModule, options: RealmOptions) {
    this.#options = options;
    this.#runtime = quickjs.newRuntime({ memoryLimitBytes: options.memoryBytes, maxStackSizeBytes: STACK_BYTES });
    this.#runtime.setInterruptHandler(options.isOver);
    this.#context = this.#runtime.newContext();
    this.#describe = this.keep(describeErrorSource, "describe.js");
    this.#runPrelude();
  }

  offer(name: string, act: (text: string) => string): void {
    const context = this.#context;
    const target = context.newFunction(name, (text) => {
      try {
        return context.newString(act(context.getString(text)));
      } catch (error) {
        if (!(error instanceof RealmError)) throw error;
        const [, name = "Error", message = error.message] = /^(\w+): ([^\n]*)/.exec(error.message) ?? [];
        return { error: context.newError({ name, message }) };
      }
    });
    target.consume((handle) => context.setProp(context.global, name, handle));
  }

  evaluate(code: string, fileName: string): void {
    const value = this.#take(this.#context.evalCode(code, fileName, { type: "global" }));
    try {
      this.#settle(value)?.dispose();
    } finally {
      value.dispose();
    }
  }

  keep(code: string, fileName: string): QuickJSHandle {
    return this.#keep(this.#take(this.#context.evalCode(code, fileName, { type: "global" })));
  }

  find(name: string): QuickJSHandle {
    return this.#keep(this.#context.getProp(this.#context.global, name));
  }

  call(target: QuickJSHandle, text: string): string {
    const context = this.#context;
    const result = context
      .newString(text)
      .consume((given) => this.#take(context.callFunction(target, context.undefined, given)));
    let settled: QuickJSHandle | null = null;
    try {
      settled = this.#settle(result);
      const answer = settled ?? result;
      if (context.getPromiseState(answer).type === "pending") throw new RealmError("Error: the promise never settles");
      if (context.typeof(answer) !== "string") throw new RealmError("TypeError: the answer is no text");
      return context.getString(answer);
    } finally {
      settled?.dispose();
      result.dispose();
    }
  }

  close(): void {
    this.#runtime.removeInterruptHandler();
    this.#runtime.setMemoryLimit(-1);
    for (const handle of this.#kept) handle.dispose();
    this.#context.dispose();
    this.#runtime.dispose();
  }

  #runPrelude(): void {
    const context = this.#context;
    const write = context.newFunction("write", (isError, text) => {
      this.#options.write(
        context.typeof(isError) === "boolean" && context.dump(isError) === true,
        context.getString(text),
      );
    });
    const prelude = this.keep(preludeSource, "prelude.js");
    const input = this.#keep(context.newString(this.#options.stdin));
    this.#take(context.callFunction(prelude, context.undefined, this.#keep(write), input)).dispose();
  }

  /** Runs what is left for later. Out: the value of a promise, to be disposed of; null for another value. */
  #settle(value: QuickJSHandle): QuickJSHandle | null {
    const jobs = this.#runtime.executePendingJobs();
    if (jobs.error !== undefined) throw this.#describeError(jobs.error);
    const state = this.#context.getPromiseState(value);
    if (state.type === "rejected") throw this.#describeError(state.error);
    if (state.type === "pending" || state.notAPromise === true) return null;
    return state.value;
  }

  #keep(handle: QuickJSHandle): QuickJSHandle {
    this.#kept.push(handle);
    return handle;
  }

  #take(result: { error?: QuickJSHandle | undefined; value?: QuickJSHandle }): QuickJSHandle {
    if (result.error !== undefined) throw this.#describeError(result.error);
    if (result.value === undefined) throw new RealmError("the program gave nothing");
    return result.value;
  }

  #describeError(error: QuickJSHandle): RealmError {
    const context = this.#context;
    let numLooks = 0;
    // Past its limits QuickJS interrupts every call, also ours.
    this.#runtime.setInterruptHandler(() => ++numLooks > DESCRIBE_LOOKS);
    this.#runtime.setMemoryLimit(this.#options.memoryBytes + DESCRIBE_BYTES);
    const result = error.consume((handle) => context.callFunction(this.#describe, context.undefined, handle));
    this.#runtime.setMemoryLimit(this.#options.memoryBytes);
    this.#runtime.setInterruptHandler(this.#options.isOver);
    if (result.error) {
      result.error.dispose();
      return new RealmError("Error: the program threw what cannot be described");
    }
    const text = result.value.consume((handle) => context.getString(handle));
    const [, exitCode, message = ""] = /^(-?\d*):([\s\S]*)$/.exec(text) ?? [];
    return new RealmError(message, exitCode === undefined || exitCode === "" ? null : Number(exitCode));
  }
}

/**
 * The thread of the JavaScript sandbox: runs programs in QuickJS, compiled to WebAssembly.
 *
 * In: messages `JavaScriptRequest`. Out: one `SandboxResult` for each, in order. Each program has a runtime of its own. It can
 * reach two functions of this file, which add text, and nothing else. The time limit is a number in shared memory that
 * QuickJS looks at while it runs; whoever started the thread sets it to 1.
 */
import { parentPort } from "node:worker_threads";
import {
  newQuickJSWASMModule,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSWASMModule,
} from "quickjs-emscripten";
import { invariant } from "../errors/reroll-error.ts";
import { preludeSource } from "./javascript-prelude.ts";
import type { SandboxOutput, SandboxResult } from "./sandbox.ts";

/** One program with its limits. `stop[0]` is 1 when its time is over. */
export interface JavaScriptRequest {
  readonly code: string;
  readonly stdin: string;
  readonly memoryBytes: number;
  readonly outputBytes: number;
  readonly stop: Int32Array;
}

/** Of the 5 MiB that the stack of the WebAssembly module has. */
const STACK_BYTES = 4 * 2 ** 20;

const port = parentPort;
invariant(port !== null, "javascript-runner.ts is started as a thread");
let quickjs: QuickJSWASMModule | null = null;
quickjs = await newQuickJSWASMModule();
port.postMessage("ready");
port.on("message", async (request: JavaScriptRequest) => {
  quickjs ??= await newQuickJSWASMModule();
  const written: Written = { output: "", errorOutput: "", report: "", wallMs: 0 };
  try {
    port.postMessage(runProgram(quickjs, request, written));
  } catch (error) {
    // QuickJS itself failed, as when it ran out of stack. Its memory may be broken, so the next program gets a new one.
    quickjs = null;
    port.postMessage({ kind: "killed", error: String(error), ...written } satisfies SandboxResult);
  }
});

type Written = { -readonly [Key in keyof SandboxOutput]: SandboxOutput[Key] };

function runProgram(quickjs: QuickJSWASMModule, request: JavaScriptRequest, written: Written): SandboxResult {
  const isLate = () => Atomics.load(request.stop, 0) === 1;
  const runtime = quickjs.newRuntime({ memoryLimitBytes: request.memoryBytes, maxStackSizeBytes: STACK_BYTES });
  runtime.setInterruptHandler(() => isLate() || roomLeft(written, request) < 0);
  const context = runtime.newContext();
  // Taken before the program can replace it.
  const clock = context.unwrapResult(context.evalCode("Date.now"));
  const now = () => context.unwrapResult(context.callFunction(clock, context.undefined)).consume(context.getNumber);
  const start = now();
  const error = evaluate(context, request, written);
  // Past its limits QuickJS interrupts every call, also ours.
  runtime.removeInterruptHandler();
  runtime.setMemoryLimit(-1);
  written.wallMs = now() - start;
  clock.dispose();
  context.dispose();
  runtime.dispose();
  return describe(error, { isLate: isLate(), isOver: roomLeft(written, request) < 0 }, written);
}

function roomLeft({ output, errorOutput, report }: Written, { outputBytes }: JavaScriptRequest): number {
  return outputBytes - output.length - errorOutput.length - report.length;
}

/** Runs the program and what it left for later. Out: what it threw, if it threw. */
function evaluate(context: QuickJSContext, request: JavaScriptRequest, written: Written): unknown {
  // One character too many says that there was more.
  const add = (key: "output" | "errorOutput" | "report", text: QuickJSHandle) => {
    written[key] += context.getString(text).slice(0, roomLeft(written, request) + 1);
  };
  const write = context.newFunction("write", (isError, text) =>
    add(context.dump(isError) === true ? "errorOutput" : "output", text),
  );
  const report = context.newFunction("report", (text) => add("report", text));
  context.setProp(context.global, "report", report);
  const prelude = context.unwrapResult(context.evalCode(preludeSource, "prelude.js"));
  const input = context.newString(request.stdin);
  context.unwrapResult(context.callFunction(prelude, context.undefined, write, input)).dispose();
  for (const handle of [write, report, prelude, input]) handle.dispose();

  const result = context.evalCode(request.code, "solution.js", { type: "global" });
  if (result.error) return takeError(context, result.error);
  const jobs = context.runtime.executePendingJobs();
  const jobsError = jobs.error === undefined ? undefined : takeError(context, jobs.error);
  const state = context.getPromiseState(result.value);
  const rejection = state.type === "rejected" ? takeError(context, state.error) : undefined;
  if (state.type === "fulfilled" && !state.notAPromise) state.value.dispose();
  result.value.dispose();
  return jobsError ?? rejection;
}

function takeError(context: QuickJSContext, handle: QuickJSHandle): unknown {
  const error: unknown = context.dump(handle);
  handle.dispose();
  return error ?? "undefined was thrown";
}

function describe(error: unknown, ending: { isLate: boolean; isOver: boolean }, written: Written): SandboxResult {
  if (ending.isOver) return { kind: "output-limit", ...written };
  if (ending.isLate) return { kind: "timeout", ...written };
  if (error === undefined) return { kind: "ok", ...written };
  const { name, message, stack, exitCode } = typeof error === "object" && error !== null ? Object(error) : {};
  if (exitCode === 0) return { kind: "ok", ...written };
  if (name === "InternalError" && message === "out of memory") return { kind: "memory", ...written };
  const text = name === undefined ? String(error) : `${name}: ${message}\n${stack ?? ""}`.trimEnd();
  return { kind: "failed", error: text, ...written };
}

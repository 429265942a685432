/**
 * The thread of the JavaScript sandbox: runs programs in QuickJS, compiled to WebAssembly.
 *
 * In: messages `JavaScriptRequest`. Out: one `SandboxResult` for each, in order. Each program has a runtime of its own, and an
 * examiner has one in a WebAssembly memory of its own, so that not even a broken QuickJS leads from one to the other. The time limit is a
 * number in shared memory that QuickJS looks at while it runs; whoever started the thread sets it to 1.
 */
import { parentPort } from "node:worker_threads";
import { newQuickJSWASMModule, type QuickJSHandle, type QuickJSWASMModule } from "quickjs-emscripten";
import { invariant } from "../errors/reroll-error.ts";
import { openRealm, type Realm, RealmError } from "./javascript-realm.ts";
import type { Examiner, SandboxOutput, SandboxResult } from "./sandbox.ts";

/** One program with its limits. `stop[0]` is 1 when its time is over. */
export interface JavaScriptRequest {
  readonly code: string;
  readonly stdin: string;
  readonly examiner: Examiner | null;
  readonly memoryBytes: number;
  readonly outputBytes: number;
  readonly stop: Int32Array;
}

/** Characters of one text between a program and its examiner. */
const MAX_MESSAGE_CHARACTERS = 2 ** 24;

const port = parentPort;
invariant(port !== null, "javascript-runner.ts is started as a thread");
const modules = new Map<"program" | "examiner", QuickJSWASMModule>();
await moduleFor("program");
port.postMessage("ready");
port.on("message", async (request: JavaScriptRequest) => {
  const written: Written = { output: "", errorOutput: "", report: "", wallMs: 0 };
  const start = performance.now();
  const end = await runRequest(request, written);
  written.wallMs = Math.round(performance.now() - start);
  port.postMessage({ ...end, ...written } satisfies SandboxResult);
});

type Written = { -readonly [Key in keyof SandboxOutput]: SandboxOutput[Key] };
type Ending =
  | { readonly kind: "ok" | "timeout" | "memory" | "output-limit" }
  | { readonly kind: "failed" | "killed"; readonly error: string };

async function runRequest(request: JavaScriptRequest, written: Written): Promise<Ending> {
  const run = new Run(request, written);
  try {
    const program = await run.open("program");
    if (request.examiner === null) {
      run.offerReport(program);
      program.evaluate(request.code, "solution.js");
    } else {
      const examiner = await run.open("examiner");
      run.offerReport(examiner);
      connect(program, examiner, request.code, request.examiner);
    }
    run.close();
    return run.describe(null);
  } catch (error) {
    if (error instanceof RealmError) {
      run.close();
      return run.describe(error);
    }
    // QuickJS itself failed, as when it ran out of stack. Its memory may be broken, so the next program gets a new one.
    modules.clear();
    return run.isOver() ? run.describe(null) : { kind: "killed", error: String(error) };
  }
}

/** What happens between the start and the end of one request: its realms and what they write. */
class Run {
  readonly #request: JavaScriptRequest;
  readonly #written: Written;
  readonly #realms: Realm[] = [];

  constructor(request: JavaScriptRequest, written: Written) {
    this.#request = request;
    this.#written = written;
  }

  async open(role: "program" | "examiner"): Promise<Realm> {
    const { memoryBytes, stdin } = this.#request;
    const realm = openRealm(await moduleFor(role), {
      memoryBytes,
      stdin: role === "program" ? stdin : "",
      isOver: () => this.isOver(),
      write: (isError, text) => this.#add(isError ? "errorOutput" : "output", text),
    });
    this.#realms.push(realm);
    return realm;
  }

  offerReport(realm: Realm): void {
    realm.offer("report", (text) => {
      this.#add("report", text);
      return "";
    });
  }

  isOver(): boolean {
    return this.#isLate() || this.#roomLeft() < 0;
  }

  /** QuickJS cannot free what it was interrupted in: its memory is given up as a whole then. */
  close(): void {
    if (this.isOver()) modules.clear();
    else for (const realm of this.#realms) realm.close();
  }

  describe(error: RealmError | null): Ending {
    if (this.#roomLeft() < 0) return { kind: "output-limit" };
    if (this.#isLate()) return { kind: "timeout" };
    if (error === null || error.exitCode === 0) return { kind: "ok" };
    return error.isOutOfMemory ? { kind: "memory" } : { kind: "failed", error: error.message };
  }

  /** One character too many says that there was more. */
  #add(key: "output" | "errorOutput" | "report", text: string): void {
    this.#written[key] += text.slice(0, this.#roomLeft() + 1);
  }

  #roomLeft(): number {
    const { output, errorOutput, report } = this.#written;
    return this.#request.outputBytes - output.length - errorOutput.length - report.length;
  }

  #isLate(): boolean {
    return Atomics.load(this.#request.stop, 0) === 1;
  }
}

/** Runs the examiner beside the program. Only texts pass between them, by `ask` one way and by `tell` the other. */
function connect(program: Realm, examiner: Realm, code: string, { service, code: examinerCode }: Examiner): void {
  let handler: QuickJSHandle | null = null;
  let answer: QuickJSHandle | null = null;
  let failure: string | null = null;
  program.offer("tell", (text) => {
    answer ??= examiner.find("answer");
    return passOn(examiner, answer, text);
  });
  try {
    handler = program.keep(service, "service.js");
    program.evaluate(code, "solution.js");
  } catch (error) {
    if (!(error instanceof RealmError)) throw error;
    failure = error.message;
  }
  examiner.offer("ask", (text) => {
    if (handler === null || failure !== null) throw new RealmError(failure ?? "there is no service");
    return passOn(program, handler, text);
  });
  examiner.evaluate(examinerCode, "tests.js");
}

function passOn(realm: Realm, target: QuickJSHandle, text: string): string {
  try {
    const answer = realm.call(target, text);
    if (answer.length <= MAX_MESSAGE_CHARACTERS) return answer;
  } catch (error) {
    if (error instanceof RealmError) throw error;
    // As in `runRequest`. The realm that asked may go on; the memory of this one is not used again.
    modules.clear();
    throw new RealmError(`InternalError: ${String(error)}`);
  }
  throw new RealmError(`RangeError: a value of more than ${MAX_MESSAGE_CHARACTERS} characters`);
}

async function moduleFor(role: "program" | "examiner"): Promise<QuickJSWASMModule> {
  const module = modules.get(role) ?? (await newQuickJSWASMModule());
  modules.set(role, module);
  return module;
}

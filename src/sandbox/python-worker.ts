/**
 * One Python sandbox: bubblewrap with the fork server in it.
 *
 * In: programs, one at a time. Out: how each ended. Promises that nothing is left when it is stopped, when this process dies,
 * and when the thread that started it ends: bubblewrap is killed with its parent, the server with bubblewrap, and with the
 * server, which is the first process of its pid namespace, everything in it.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { invariant, RerollError } from "../errors/reroll-error.ts";
import { bubblewrapArguments } from "./bubblewrap-arguments.ts";
import { endings, forkServerSource } from "./fork-server-source.ts";
import type { SandboxLimits, SandboxOutput, SandboxProgram, SandboxResult } from "./sandbox.ts";
import { seccompFilter } from "./seccomp-filter.ts";
import { type SandboxWorker, workerLost } from "./worker-pool.ts";

interface PythonWorkerOptions {
  readonly bubblewrap: string;
  /** The interpreter, with its path resolved. */
  readonly python: string;
  /** Folders with packages, shown to programs and importable. */
  readonly packages: readonly string[];
  /** Modules that are imported once, before the first run. */
  readonly preload: readonly string[];
  /** Modules given as source text, imported after those. */
  readonly modules: Readonly<Record<string, string>>;
  readonly limits: SandboxLimits & PythonLimits;
}

/** Limits that only processes have. */
export interface PythonLimits {
  /** Processor time of one process, in steps of a second. */
  readonly cpuMs: number;
  /** Files that a program writes, together. They lie in memory. */
  readonly tmpBytes: number;
  /** Processes and threads at the same time. */
  readonly numProcesses: number;
}

/** Nobody: owns no file of the host, and is held by RLIMIT_NPROC, which root is not. */
const UNPRIVILEGED = { uid: 65_534, gid: 65_534 };
/** The server ends a run at its limit; this is for a server that does not answer. */
const GRACE_MS = 2_000;
const RESPONSE_HEADER_BYTES = 21;
const MAX_ERROR_CHARACTERS = 4_000;
const START_TIMEOUT_MS = 30_000;

/** Rejects with `SANDBOX_UNAVAILABLE` and what bubblewrap or Python said when the sandbox does not come up. */
export async function startPythonWorker(options: PythonWorkerOptions): Promise<SandboxWorker> {
  const filter = seccompFilter(process.arch);
  if (process.platform !== "linux" || filter === null) {
    throw unavailable(`it needs Linux on x64 or arm64, and this is ${process.platform} on ${process.arch}`);
  }
  const server = [
    "-s",
    "-B",
    "-c",
    forkServerSource,
    filter.toString("hex"),
    options.preload.join(","),
    JSON.stringify(options.modules),
  ];
  const child = spawn(options.bubblewrap, [...bubblewrapArguments(options), options.python, ...server], {
    cwd: "/",
    env: {},
    // A session of its own: Ctrl-C is for this process, which ends its runs in order or takes them with it.
    detached: true,
    ...chooseUser(),
  });
  const worker = new PythonWorker(child, options.limits);
  await worker.waitUntilReady();
  return worker;
}

class PythonWorker implements SandboxWorker {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #limits: SandboxLimits & PythonLimits;
  readonly #hasExited: Promise<unknown>;
  /** Why the process ended, once it has. */
  #end: string | null = null;
  #received: Buffer[] = [];
  #numReceived = 0;
  #messages = "";
  #wake: () => void = () => {};

  constructor(child: ChildProcessWithoutNullStreams, limits: SandboxLimits & PythonLimits) {
    this.#child = child;
    this.#limits = limits;
    this.#hasExited = new Promise((resolve) => {
      child.once("error", (error) => resolve(this.#finish(error.message)));
      child.once("close", (code, signal) => resolve(this.#finish(`${signal ?? `exit status ${code}`}`)));
    });
    // Writing to a process that has just ended fails; the end itself is what counts.
    child.stdin.on("error", () => {});
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#messages = `${this.#messages}${text}`.slice(-MAX_ERROR_CHARACTERS);
    });
    child.stdout.on("data", (chunk: Buffer) => {
      this.#received.push(chunk);
      this.#numReceived += chunk.length;
      this.#wake();
    });
  }

  async waitUntilReady(): Promise<void> {
    const timer = setTimeout(() => void this.stop(), START_TIMEOUT_MS);
    const ready = await this.#take(1);
    clearTimeout(timer);
    if (ready === null) throw unavailable(`bubblewrap or Python failed: ${this.#messages.trim() || this.#end}`);
  }

  async run(program: SandboxProgram): Promise<SandboxResult> {
    const limits = { ...this.#limits, ...program.limits };
    const { service = "", code: examiner = "" } = program.examiner ?? {};
    const parts = [service, program.code, program.stdin ?? "", examiner].map((text) => Buffer.from(text));
    const sizes = parts.map(({ length }) => length);
    this.#child.stdin.write(Buffer.concat([requestHeader(sizes, limits), ...parts]));
    let watchdog = setTimeout(() => {
      // A second timer: if this thread was busy, an answer that is already there is read before it fires.
      watchdog = setTimeout(() => void this.stop(), GRACE_MS);
    }, limits.wallMs);
    try {
      const header = await this.#take(RESPONSE_HEADER_BYTES);
      if (header === null) throw workerLost(this.#messages.trim() || String(this.#end));
      const texts = await this.#take(header.readUInt32LE(9) + header.readUInt32LE(13) + header.readUInt32LE(17));
      if (texts === null) throw workerLost(this.#messages.trim() || String(this.#end));
      return readResponse(header, texts);
    } finally {
      clearTimeout(watchdog);
    }
  }

  hasEnded(): boolean {
    return this.#end !== null;
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#hasExited;
  }

  /** The next bytes of the answer, or null when the process ended before they came. */
  async #take(size: number): Promise<Buffer | null> {
    while (this.#numReceived < size) {
      if (this.#end !== null) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const all = Buffer.concat(this.#received);
    this.#received = [all.subarray(size)];
    this.#numReceived = all.length - size;
    return all.subarray(0, size);
  }

  #finish(reason: string): void {
    this.#end ??= reason;
    this.#wake();
  }
}

/** The user that the sandbox runs as, when that is not the user of this process. */
export function chooseUser(): typeof UNPRIVILEGED | null {
  if (process.getuid?.() !== 0) return null;
  const ranges = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
  const hasNobody = ranges.some((range) => {
    const [first = 0, , size = 0] = range.trim().split(/\s+/).map(Number);
    return UNPRIVILEGED.uid >= first && UNPRIVILEGED.uid < first + size;
  });
  // The root of a user namespace without other users may be anyone outside; the server finds out whether limits hold.
  return hasNobody ? UNPRIVILEGED : null;
}

function requestHeader(sizes: readonly number[], limits: SandboxLimits & PythonLimits): Buffer {
  const header = Buffer.alloc(48);
  for (const [index, size] of sizes.entries()) header.writeUInt32LE(size, 4 * index);
  header.writeUInt32LE(Math.ceil(limits.wallMs), 16);
  header.writeUInt32LE(Math.ceil(limits.cpuMs / 1000), 20);
  header.writeBigUInt64LE(BigInt(limits.memoryBytes), 24);
  header.writeBigUInt64LE(BigInt(limits.tmpBytes), 32);
  header.writeUInt32LE(limits.outputBytes, 40);
  header.writeUInt32LE(limits.numProcesses, 44);
  return header;
}

function readResponse(header: Buffer, texts: Buffer): SandboxResult {
  const ending = endings[header.readUInt8(0)];
  const status = header.readInt32LE(1);
  const [outputBytes, errorBytes] = [header.readUInt32LE(9), header.readUInt32LE(13)];
  const output: SandboxOutput = {
    output: texts.toString("utf8", 0, outputBytes),
    errorOutput: texts.toString("utf8", outputBytes, outputBytes + errorBytes),
    report: texts.toString("utf8", outputBytes + errorBytes),
    wallMs: header.readUInt32LE(5),
  };
  invariant(ending !== undefined, "the fork server names an ending that python-worker.ts does not know");
  switch (ending) {
    case "exited":
      return exited(status, output);
    case "not-isolated":
      throw new RerollError("SANDBOX_FAILED", `The sandbox could not isolate a run: ${output.errorOutput.trim()}`);
    case "timeout":
    case "memory":
    case "output-limit":
      return { kind: ending, ...output };
  }
}

function exited(status: number, output: SandboxOutput): SandboxResult {
  if (status === 0) return { kind: "ok", ...output };
  if (status < 0) return { kind: "killed", error: `Ended by ${signalName(-status)}.`, ...output };
  const text = output.errorOutput.trim();
  if (/(?:^|\n)[\w.]*MemoryError\b[^\n]*$/.test(text)) return { kind: "memory", ...output };
  return { kind: "failed", error: text.slice(-MAX_ERROR_CHARACTERS) || `Exit status ${status}.`, ...output };
}

function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`;
}

function unavailable(reason: string): RerollError {
  return new RerollError("SANDBOX_UNAVAILABLE", `The Python sandbox cannot run here: ${reason}.`, { reason });
}

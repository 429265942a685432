/**
 * A Python process that answers requests, one JSON line each way: see python/serve.py. Driving it from the benchmark
 * lets both sides take turns in one run, so that what else happens on the machine meets them alike.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** BENCH_PYTHON, or the interpreter that has Debian's python3-torch, whose libtorch the addon is built against on such machines. */
const interpreter = process.env.BENCH_PYTHON ?? "/usr/bin/python3";

// The addon has changed the environment of this process already, so the default takes the variables away.
const openMpWaiting = {
  default: { OMP_WAIT_POLICY: undefined, GOMP_SPINCOUNT: undefined },
  passive: { OMP_WAIT_POLICY: "passive", GOMP_SPINCOUNT: "0" },
} as const;

export class PythonChild {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;

  /** Starts python/<script>, with OpenMP waiting as it does by default, or passively as the addon sets it. */
  constructor(script: string, waiting: "default" | "passive" = "default") {
    this.#child = spawn(interpreter, [fileURLToPath(new URL(`python/${script}`, import.meta.url))], {
      env: { ...process.env, ...openMpWaiting[waiting] },
    });
    this.#child.stderr.pipe(process.stderr);
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** Calls a handler of the script and returns what it returns. One request at a time. */
  async request<Reply>(handler: string, values: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    this.#child.stdin.write(`${JSON.stringify({ handler, ...values })}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("The Python child ended. It needs torch and numpy: apt-get install python3-torch.");
    return JSON.parse(value);
  }

  async stop(): Promise<void> {
    this.#child.stdin.end();
    if (this.#child.exitCode === null) await once(this.#child, "exit");
  }
}

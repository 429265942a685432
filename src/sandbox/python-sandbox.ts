/**
 * The sandbox for Python: bubblewrap around a pool of fork servers.
 *
 * A program has no network, sees no file of the host but the interpreter and its libraries, and is held by limits of time,
 * memory, output, files and processes. Where bubblewrap cannot work, creating one throws: there is no other way to run code.
 */
import { existsSync, realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { chooseUser, type PythonLimits, startPythonWorker } from "./python-worker.ts";
import { isReachable, makeReachable } from "./reachable-folders.ts";
import { defaultLimits, type Sandbox, type SandboxLimits } from "./sandbox.ts";
import { createWorkerPool } from "./worker-pool.ts";

interface PythonSandboxOptions {
  /** Programs at the same time. Default: the number of cores. */
  readonly numWorkers?: number;
  /** A worker is replaced after this many runs; 1 starts a fresh sandbox for each program, which is more than ten times slower. Default 1000. */
  readonly runsPerWorker?: number;
  /** Programs that may wait for a worker. Default 10000. */
  readonly maxQueued?: number;
  /** Default: 10 s of wall and processor time, 512 MiB, 1 MiB of output, 64 MiB of files, 32 processes and threads. */
  readonly limits?: Partial<SandboxLimits & PythonLimits>;
  /** The interpreter, 3.9 or later. Default: the system's, /usr/bin/python3 or /usr/local/bin/python3. */
  readonly python?: string;
  /** Default: the system's, /usr/bin/bwrap or /usr/local/bin/bwrap. */
  readonly bubblewrap?: string;
  /**
   * Folders with packages that programs may import, as `pip install --target` makes them. Where root runs this and nobody may not
   * reach a folder, a copy of it is shown. Default: what the system has.
   */
  readonly packages?: readonly string[];
  /** Modules imported before the first run, so that importing them costs a program nothing. Default: what small programs use. */
  readonly preload?: readonly string[];
  /** Modules given as source text, by name, in the order of their imports. They are compiled once. Default: none. */
  readonly modules?: Readonly<Record<string, string>>;
}

const SYSTEM_FOLDERS = ["/usr/bin", "/usr/local/bin"];
const COMMON_MODULES =
  "bisect,collections,copy,datetime,decimal,fractions,functools,heapq,itertools,json,math,operator,random,re,statistics,string,typing";
const DEFAULT_LIMITS = { ...defaultLimits, cpuMs: 10_000, tmpBytes: 2 ** 26, numProcesses: 32 };

/** Throws `SANDBOX_UNAVAILABLE` with the reason where programs cannot be isolated. */
export async function createPythonSandbox(options: PythonSandboxOptions = {}): Promise<Sandbox> {
  const python = realpathSync(findProgram("python3", options.python, "python3"));
  const bubblewrap = findProgram("bwrap", options.bubblewrap, "bubblewrap");
  const isOtherUser = chooseUser() !== null;
  if (isOtherUser && !isReachable(dirname(python))) throw hiddenInterpreter(python);
  const asked = (options.packages ?? []).map((path) => realpathSync(path));
  const packages = isOtherUser ? await makeReachable(asked) : { paths: asked, remove: async () => {} };
  const workerOptions = {
    bubblewrap,
    python,
    packages: packages.paths,
    preload: options.preload ?? COMMON_MODULES.split(","),
    modules: options.modules ?? {},
    limits: { ...DEFAULT_LIMITS, ...options.limits },
  };
  const pool = createWorkerPool({
    start: () => startPythonWorker(workerOptions),
    numWorkers: options.numWorkers ?? availableParallelism(),
    runsPerWorker: options.runsPerWorker ?? 1000,
    maxQueued: options.maxQueued ?? 10_000,
  });
  const { run, close } = await pool.catch(async (error: unknown) => {
    await packages.remove();
    throw error;
  });
  return { run, close: () => close().then(packages.remove) };
}

/** Whether Python programs can be isolated here, found out by doing it once. The reason is a sentence that says what to do. */
export async function checkSandbox(
  options: PythonSandboxOptions = {},
): Promise<{ readonly isAvailable: true } | { readonly isAvailable: false; readonly reason: string }> {
  try {
    const sandbox = await createPythonSandbox({ ...options, numWorkers: 1 });
    try {
      await sandbox.run({ code: "" });
    } finally {
      await sandbox.close();
    }
    return { isAvailable: true };
  } catch (error) {
    if (!(error instanceof RerollError)) throw error;
    return { isAvailable: false, reason: error.message };
  }
}

function findProgram(name: string, given: string | undefined, systemPackage: string): string {
  const places = given === undefined ? SYSTEM_FOLDERS.map((folder) => `${folder}/${name}`) : [given];
  const found = places.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new RerollError(
    "SANDBOX_UNAVAILABLE",
    `The Python sandbox cannot run here: there is no ${places.join(" and no ")}. Install it: apt-get install ${systemPackage}.`,
  );
}

function hiddenInterpreter(python: string): RerollError {
  return new RerollError(
    "SANDBOX_UNAVAILABLE",
    `The Python sandbox cannot run here: root starts it as nobody, who cannot reach ${python}. Use an interpreter that everybody can reach, such as the system's, or run as an ordinary user.`,
  );
}

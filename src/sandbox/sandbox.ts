/**
 * What a sandbox is: a place that runs a program nobody has read, and tells how it ended.
 *
 * Whatever the program does is a result. A sandbox rejects only when it cannot run programs at all, when the caller gave up
 * (the signal), or when too many wait already.
 */

export interface Sandbox {
  /** Waits for a free worker. Rejects with the reason of the signal when that comes first; the program is ended then. */
  readonly run: (program: SandboxProgram, signal?: AbortSignal) => Promise<SandboxResult>;
  /** Ends everything that runs. Resolves when no process and no thread is left. */
  readonly close: () => Promise<void>;
}

/** One program. Each run starts from the same state and sees nothing of other runs. */
export interface SandboxProgram {
  readonly code: string;
  /** What the program reads from its standard input. Default: nothing. */
  readonly stdin?: string;
  /** Limits of this run that differ from those of the sandbox. */
  readonly limits?: Partial<SandboxLimits>;
  /** A second program that questions the first. The result is then how the examiner ended, and what it reported. */
  readonly examiner?: Examiner;
}

/**
 * A program that talks to another one but shares nothing with it: in Python a process of its own, started after the other and with
 * namespaces of its own; in JavaScript a runtime of its own, in its own WebAssembly memory. Only texts pass between them.
 *
 * Python: both hold one end of a stream socket, the examined program as file descriptor 3 and the examiner as 4; the service finds
 * the code in its variable `source` and runs it. JavaScript: the service evaluates to a function from text to text (or a promise of
 * it), which the examiner calls as `ask(text)`; the service calls the function `answer` of the examiner as `tell(text)`; the code runs
 * after the service, as a script.
 */
export interface Examiner {
  /** Runs beside the examined code and answers the examiner. The code can tamper with it, so its answers are claims. */
  readonly service: string;
  /** The examiner itself. The examined code can neither see nor change it. */
  readonly code: string;
}

export interface SandboxLimits {
  /** Milliseconds from start to end, whatever the program does. */
  readonly wallMs: number;
  /** Memory of all processes of the run together. */
  readonly memoryBytes: number;
  /** Bytes of standard output, standard error and report together. */
  readonly outputBytes: number;
}

/** How a program ended. `failed`: an uncaught error or an exit status other than 0. `killed`: a signal ended it. */
export type SandboxResult = SandboxOutput &
  (
    | { readonly kind: "ok" }
    | { readonly kind: "failed"; readonly error: string }
    | { readonly kind: "killed"; readonly error: string }
    | { readonly kind: "timeout" | "memory" | "output-limit" }
  );

/** What came out until the end; cut at the limit. */
export interface SandboxOutput {
  /** Standard output. */
  readonly output: string;
  /** Standard error. */
  readonly errorOutput: string;
  /** What the program sent on a way apart from its output: file descriptor 3 in Python, `report(text)` in JavaScript. */
  readonly report: string;
  /** Milliseconds that the program ran; waiting for a worker is not counted. */
  readonly wallMs: number;
}

/** The limits where nobody says otherwise: ten seconds, 512 MiB, 1 MiB of output. */
export const defaultLimits: SandboxLimits = { wallMs: 10_000, memoryBytes: 2 ** 29, outputBytes: 2 ** 20 };

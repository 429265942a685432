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
  /** What differs from the limits of the sandbox. */
  readonly limits?: Partial<SandboxLimits>;
}

export interface SandboxLimits {
  /** Milliseconds from the start to the end, whatever the program does. */
  readonly wallMs: number;
  /** Memory of all its processes together. */
  readonly memoryBytes: number;
  /** Standard output, standard error and report together. */
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

/**
 * What hands a run to a scheduler that exists: Slurm, Kubernetes, Ray. Each is a file of its own that writes the scheduler's own format, asks
 * the scheduler's own programs or routes, and knows nothing of training.
 *
 * To add one: a file with a `Launcher`, and a line in `table.ts`.
 */

/** A run to be started on several machines. */
export interface Job {
  /** Lower-case letters, digits and dashes: what every scheduler takes for a name. */
  readonly name: string;
  readonly numNodes: number;
  /** GPUs of each node, one process for each; 0: one process on the CPU. */
  readonly gpusPerNode: number;
  /** How reroll is started on a machine that shares this one's files, as words. */
  readonly program: readonly string[];
  /** The run file, seen from the working folder. */
  readonly runFile: string;
  /** Other files that its words name, seen from there too. */
  readonly files: readonly string[];
  /** The words after it: `--resume auto ...`. */
  readonly words: readonly string[];
  readonly workingFolder: string;
  /** REROLL_HOME of whoever submits it, for a launcher that does not pass variables on. */
  readonly home?: string;
  /** Where files of the job are, on storage that all machines share. */
  readonly folder: string;
  /** What the processes of the run know each other by. */
  readonly token: string;
  /** Options of the launcher, as they were given: `--option key=value`. */
  readonly options: Readonly<Record<string, string>>;
}

/** A job that was submitted, as it is kept in its folder. */
export interface SubmittedJob extends Pick<Job, "name" | "folder" | "options"> {
  /** What the scheduler calls it. */
  readonly id: string;
}

/** How a job is doing. "unknown": the scheduler does not know it any more. */
export type JobState = "waiting" | "running" | "finished" | "failed" | "stopped" | "unknown";

export interface Launcher {
  /** The text that describes the job in the scheduler's own terms: what a dry run prints. Throws for options that it does not have. */
  describe(job: Job): string;
  /** Hands the job over. Resolves with what the scheduler calls it. */
  submit(job: Job): Promise<string>;
  stateOf(job: SubmittedJob): Promise<JobState>;
  /** Everything that the processes of the job have printed. */
  logsOf(job: SubmittedJob): Promise<string>;
  stop(job: SubmittedJob): Promise<void>;
}

/** Processes of a job. */
export function numProcesses({ numNodes, gpusPerNode }: Pick<Job, "numNodes" | "gpusPerNode">): number {
  return numNodes * Math.max(1, gpusPerNode);
}

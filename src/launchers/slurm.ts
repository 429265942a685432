/**
 * Slurm: an sbatch file, one task for each GPU, started with srun. Where a node fails, Slurm itself requeues the job; where the step is killed and
 * its nodes live, the file starts it again. What a run can do about its own failures it has done by then.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Job, JobState, Launcher, SubmittedJob } from "./launcher.ts";
import { runProgram } from "./run-program.ts";
import { shellLine, shellWord } from "./shell-words.ts";

export const slurm: Launcher = {
  describe: sbatchFile,
  submit: async (job) => {
    const file = join(job.folder, "job.sbatch");
    writeFileSync(file, sbatchFile(job));
    writeFileSync(tokenFile(job), `${job.token}\n`, { mode: 0o600 });
    // A cluster of several answers "id;cluster".
    return (await runProgram("sbatch", ["--parsable", file])).trim().split(";")[0]!;
  },
  stateOf: async (job) => {
    const listed = await runProgram("squeue", ["--noheader", "--jobs", job.id, "--format", "%T"]).catch(
      expectForgotten,
    );
    return STATES[listed.trim().split(/\s+/)[0] ?? ""] ?? endOf(job);
  },
  logsOf: async (job) => (existsSync(logFile(job)) ? readFileSync(logFile(job), "utf8") : ""),
  stop: async ({ id }) => void (await runProgram("scancel", [id])),
};

const STATES: Readonly<Record<string, JobState>> = {
  PENDING: "waiting",
  CONFIGURING: "waiting",
  REQUEUED: "waiting",
  REQUEUE_HOLD: "waiting",
  RUNNING: "running",
  COMPLETING: "running",
  SUSPENDED: "running",
  STOPPED: "running",
};

/** Nothing is listed for a job that Slurm has forgotten, some minutes after its end. Any other failure tells nothing about the job. */
function expectForgotten(cause: Error): string {
  if (cause.message.includes("Invalid job id")) return "";
  throw new RerollError(
    "SCHEDULER_FAILED",
    `Slurm did not say how the job is doing, which may well run: ${cause.message}`,
    {},
    { cause },
  );
}

/** The job itself says how it ended; one that was stopped had no time to. */
function endOf(job: SubmittedJob): JobState {
  const file = endFile(job);
  if (!existsSync(file)) return "stopped";
  return readFileSync(file, "utf8").trim() === "0" ? "finished" : "failed";
}

function sbatchFile(job: Job): string {
  const { name, numNodes, gpusPerNode, workingFolder, options } = job;
  const settings = {
    "job-name": name,
    nodes: `${numNodes}`,
    "ntasks-per-node": `${Math.max(1, gpusPerNode)}`,
    ...(gpusPerNode > 0 && { "gpus-per-node": `${gpusPerNode}` }),
    chdir: workingFolder,
    // Slurm takes what follows a % for the number of the job, and the like.
    output: logFile(job).replaceAll("%", "%%"),
    "open-mode": "append",
    ...options,
  };
  for (const [key, value] of Object.entries(settings)) expectPlain(key, value);
  return `#!/bin/bash
${Object.entries(settings)
  .map(([key, value]) => `#SBATCH --${key}${value === "" ? "" : `=${shellWord(value)}`}`)
  .join("\n")}
#SBATCH --requeue

# This script runs on the first node, which has rank 0.
export MASTER_ADDR="$(hostname)"
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export REROLL_TOKEN="$(cat ${shellWord(tokenFile(job))})"

rm -f ${shellWord(endFile(job))}
lives=0
while true; do
  SECONDS=0
  srun --kill-on-bad-exit=1 ${shellLine([...job.program, "train", job.runFile, ...job.words])}
  code=$?
  # 0 is the end, 1 and 2 are failures that would come again, and 130 is Ctrl-C. What is left was killed.
  if [ $code -lt 128 ] || [ $code = 130 ]; then break; fi
  if [ $SECONDS -gt 600 ]; then lives=0; fi
  lives=$((lives + 1))
  if [ $lives -gt ${MAX_LIVES} ]; then break; fi
  echo "The processes of the job were killed (exit code $code). Starting all of them again."
done
echo $code > ${shellWord(endFile(job))}
exit $code
`;
}

/** Slurm reads these lines by rules of its own, in which a line break or a backslash cannot be quoted as for a shell. */
function expectPlain(key: string, value: string): void {
  if (!/[\\\p{Cc}]/u.test(key + value)) return;
  throw new RerollError(
    "INVALID_OPTION",
    `--option ${key} must be without line breaks and backslashes, which Slurm would take for something else: got ${JSON.stringify(value)}.`,
  );
}

/** Kills in a row, with less than ten minutes between them, after which the job has failed. */
const MAX_LIVES = 5;

function logFile({ folder }: Pick<Job, "folder">): string {
  return join(folder, "log.txt");
}

function tokenFile({ folder }: Pick<Job, "folder">): string {
  return join(folder, "token");
}

function endFile({ folder }: Pick<Job, "folder">): string {
  return join(folder, "exit-code");
}

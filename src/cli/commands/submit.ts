/** `reroll submit`: hands a run to Slurm, Kubernetes or Ray; `status`, `logs` and `stop` ask them about it. */
import { randomBytes } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import { findJob, listJobs, storeJob } from "../../launchers/job-store.ts";
import { type Job, numProcesses } from "../../launchers/launcher.ts";
import { type LauncherName, launchers } from "../../launchers/table.ts";
import { defaultRunsFolder } from "../../run/runs-folder.ts";
import { textTable } from "../../run/text-table.ts";
import { commandName } from "../command-name.ts";
import { several, wholeNumber } from "../flag-values.ts";
import { expectPair, type TlsFlags, withTlsFlags } from "../machine-flags.ts";
import { ownProgram } from "../own-program.ts";

interface SubmitFlags extends TlsFlags {
  readonly to: LauncherName;
  readonly nodes: number;
  readonly gpus: number;
  readonly set?: readonly string[];
  readonly name?: string;
  readonly joinTimeout?: number;
  readonly option?: Readonly<Record<string, string>>;
  readonly dryRun?: boolean;
}

/** The command, for the program to add. */
export const submitCommand = withTlsFlags(
  new Command("submit")
    .description("Hand a run to a scheduler, to be trained on several machines.")
    .argument("<run file>", "run.ts, or YAML or JSON, at a path that the machines share")
    .addOption(new Option("--to <scheduler>", "who starts it").choices(Object.keys(launchers)).makeOptionMandatory())
    .option("--nodes <n>", "machines", wholeNumber(1), 1)
    .option("--gpus <n>", "GPUs of each machine, a rank on each; 0: one rank on the CPU", wholeNumber(0), 0)
    .option("--set <key=value>", "a value in place of the file's; may be given several times", several)
    .option("--name <name>", "what the run and the job are called")
    .option("--join-timeout <seconds>", "how long processes wait for each other (default: 600)", wholeNumber(1))
    .option("--option <key=value>", "an option of the scheduler; may be given several times", keyAndValue)
    .option("--dry-run", "print what would be submitted, and submit nothing"),
)
  .addHelpText(
    "after",
    `
Examples:
  $ reroll submit run.ts --to slurm --nodes 4 --gpus 8 --option partition=gpu --option time=24:00:00
  $ reroll submit run.ts --to kubernetes --nodes 4 --gpus 8 --option image=registry/reroll --option claim=work
  $ reroll submit run.ts --to ray --nodes 2 --option address=http://head:8265
  $ reroll status
  $ reroll logs run
  $ reroll stop run

Options of the scheduler are, for slurm, those of sbatch; for kubernetes image, claim, mount, namespace and restarts; for ray address,
cpus (of each machine) and timeout (seconds to wait for machines).`,
  )
  .action(runSubmit);

/** The command, for the program to add. */
export const statusCommand = new Command("status")
  .description("List the jobs that were submitted from here, and how they are doing.")
  .action(async () => {
    const jobs = listJobs(jobsFolder());
    const states = await Promise.all(
      jobs.map((job) => launchers[job.launcher].stateOf(job).catch((error: Error) => `? ${error.message}`)),
    );
    const rows = jobs.map(({ folder, launcher, id, submittedAt }, i) => [
      folder.slice(jobsFolder().length + 1),
      `${launcher} ${id}`,
      submittedAt.slice(0, 19),
      states[i]!,
    ]);
    console.log(rows.length === 0 ? `no jobs in ${jobsFolder()}` : textTable(rows));
  });

/** The command, for the program to add. */
export const logsCommand = new Command("logs")
  .description("Print what the processes of a job have printed.")
  .argument("<job>", "its name in the list of reroll status")
  .action(async (name: string) => {
    const job = findJob(jobsFolder(), name);
    process.stdout.write(await launchers[job.launcher].logsOf(job));
  });

/** The command, for the program to add. */
export const stopCommand = new Command("stop")
  .description("Stop a job. Its run keeps its checkpoints, and goes on when it is submitted again.")
  .argument("<job>", "its name in the list of reroll status")
  .action(async (name: string) => {
    const job = findJob(jobsFolder(), name);
    await launchers[job.launcher].stop(job);
    console.log(`stopped ${name}`);
  });

async function runSubmit(path: string, flags: SubmitFlags): Promise<void> {
  const sets = [...(flags.set ?? []), ...(flags.name === undefined ? [] : [`name=${JSON.stringify(flags.name)}`])];
  const { nodes: numNodes, gpus: gpusPerNode, joinTimeout } = flags;
  const name = await checkedName(path, sets, numProcesses({ numNodes, gpusPerNode }));
  const home = process.env.REROLL_HOME;
  const tls = tlsFilesOf(flags);
  const job: Omit<Job, "folder"> = {
    ...{ name, numNodes, gpusPerNode },
    program: ownProgram(),
    runFile: relative("", path),
    files: Object.values(tls),
    words: [
      ...["--resume", "auto", "--restarts", `${RESTARTS}`, ...sets.flatMap((set) => ["--set", set])],
      ...Object.entries(tls).flat(),
      ...(joinTimeout === undefined ? [] : ["--join-timeout", `${joinTimeout}`]),
    ],
    workingFolder: process.cwd(),
    ...(home !== undefined && { home: resolve(home) }),
    token: randomBytes(16).toString("hex"),
    options: flags.option ?? {},
  };
  const launcher = launchers[flags.to];
  if (flags.dryRun === true) {
    process.stdout.write(launcher.describe({ ...job, folder: join(jobsFolder(), name) }));
    return;
  }
  // What it refuses is refused before there is a folder.
  launcher.describe({ ...job, folder: join(jobsFolder(), name) });
  const { newFolder } = await import("../../run/run-training.ts");
  const folder = await newFolder(jobsFolder(), name);
  try {
    const id = await launcher.submit({ ...job, folder });
    const submittedAt = new Date().toISOString();
    storeJob({ launcher: flags.to, id, name, folder, options: job.options, submittedAt });
    const short = folder.slice(jobsFolder().length + 1);
    console.log(`submitted to ${flags.to} as ${id}\nnext  ${commandName} status\n      ${commandName} logs ${short}`);
  } catch (cause) {
    rmSync(folder, { recursive: true });
    throw cause;
  }
}

/** The files of TLS by their flags, seen from the working folder. Each must be there, where the processes of the job will look for it. */
function tlsFilesOf(flags: TlsFlags): Readonly<Record<string, string>> {
  expectPair(flags);
  const { tlsCert, tlsKey, tlsCa } = flags;
  const given = Object.entries({ "--tls-cert": tlsCert, "--tls-key": tlsKey, "--tls-ca": tlsCa });
  const files = given.flatMap(([flag, file]) => (file === undefined ? [] : [[flag, relative("", file)] as const]));
  const missing = files.find(([, file]) => !existsSync(file));
  if (missing === undefined) return Object.fromEntries(files);
  throw new RerollError(
    "FILE_INVALID",
    `${missing.join(" ")} does not exist. It takes a PEM file, at a path that the machines share.`,
  );
}

/** The name of the run, as schedulers take names. Throws for a run file that could not run on so many processes. */
async function checkedName(path: string, sets: readonly string[], worldSize: number): Promise<string> {
  const [{ loadRunFile }, { openRunFile }] = await Promise.all([
    import("../../run/load-run-file.ts"),
    import("../open-run-file.ts"),
  ]);
  const launch = { RANK: "0", WORLD_SIZE: `${worldSize}`, MASTER_ADDR: "127.0.0.1" };
  const file = await openRunFile(await loadRunFile(path), sets, { ...process.env, ...launch }, {});
  const { config } = await file.resolve();
  const plain = config.name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+|-+$/g, "");
  return plain.slice(0, MAX_NAME) || "run";
}

/** Restarts in a row without progress, before the scheduler is told that the job has failed. */
const RESTARTS = 5;

/** Kubernetes adds to it, and takes names of 63 characters. */
const MAX_NAME = 40;

function jobsFolder(): string {
  return resolve(dirname(defaultRunsFolder()), "jobs");
}

function keyAndValue(text: string, before: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const [, key, value] = /^([\w-]+)=(.*)$/s.exec(text) ?? [];
  if (key === undefined || value === undefined) throw new InvalidArgumentError("It takes key=value.");
  return { ...before, [key]: value };
}

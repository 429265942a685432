/** `reroll train`: a run file in, trained weights in a run folder out. */
import { basename, dirname, resolve } from "node:path";
import { Command, CommanderError, Option } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import { readLaunch } from "../../machines/launch.ts";
import type { Machines } from "../../machines/machines.ts";
import type { RawRun } from "../../run/load-run-file.ts";
import type { RunTrainingOptions } from "../../run/run-training.ts";
import { commandName } from "../command-name.ts";
import { several, wholeNumber } from "../flag-values.ts";
import { type Address, address, type LinkFlags, openMachines, withLinkFlags, workFor } from "../machine-flags.ts";
import { type Environment, openRunFile } from "../open-run-file.ts";
import { readVersion } from "../read-version.ts";
import { stopSignal } from "../stop-signal.ts";
import { superviseThis } from "../supervise.ts";
import { showLife, tellParent } from "../supervised.ts";

interface TrainFlags extends LinkFlags {
  readonly set?: readonly string[];
  readonly explain?: boolean;
  readonly plan?: boolean;
  readonly resume?: string;
  readonly resumeFrom?: string;
  readonly name?: string;
  readonly dashboard?: boolean;
  readonly listen?: Address;
  readonly workers?: number;
  readonly restarts?: number;
  readonly supervised?: boolean;
  /** The folder of a run whose process has died: it goes on there, from the beginning where it has no checkpoint. */
  readonly again?: string;
}

/** The command, for the program to add. */
export const trainCommand = withLinkFlags(
  new Command("train")
    .description("Train a model as a run file says.")
    .argument("<run file>", "run.ts, or YAML or JSON")
    .option("--set <key=value>", "a value in place of the file's; may be given several times", several)
    .option("--name <name>", "what the run and its folder are called")
    .option(
      "--resume <folder>",
      "go on with the run in this folder, from its latest checkpoint; auto: with the newest run of this name that is not finished",
    )
    .option("--resume-from <checkpoint>", "go on from this checkpoint: its folder, or with --resume its step")
    .option(
      "--restarts <n>",
      "start again from the latest checkpoint whenever the run fails or is killed; give up after n restarts in a row without a new one",
      wholeNumber(1),
    )
    .addOption(new Option("--supervised").hideHelp())
    .addOption(new Option("--again <folder>").hideHelp())
    .option("--dashboard", "show the run on a web page while it goes on")
    .option("--explain", "print every key with its value and where it comes from, and train nothing")
    .option("--plan", "check everything, print batch arithmetic and memory, and train nothing")
    .option("--listen <host:port>", "wait here for workers on other machines: reroll worker --join", address)
    .option("--workers <n>", "how many of them, each for one rank beside the one here", wholeNumber(1)),
)
  .addHelpText(
    "after",
    `
Examples:
  $ reroll train run.ts
  $ reroll train run.ts --set algorithm.clipHigh=0.28 --set loop.steps=500 --name clip-28
  $ reroll train run.ts --resume runs/clip-28
  $ reroll train run.ts --restarts 5

A resumed run keeps the --set values it was started with; new ones win. The first Ctrl-C (or SIGTERM, or SIGHUP) ends the run after
the step under way and writes a checkpoint, the second ends it at once. Exit codes: 0 done, 1 failed, 2 wrong input, 130 (143, 129)
stopped. Under torchrun, srun or mpirun the process with rank 0 runs the run, and each of the others trains one rank of it.`,
  )
  .action(runTrain);

/** One process of several does what its rank says. */
async function runTrain(path: string, flags: TrainFlags): Promise<void> {
  const environment = environmentOf(flags);
  if (flags.restarts !== undefined && flags.explain !== true && flags.plan !== true)
    return superviseThis(flags.restarts);
  const rest = flags.supervised === true ? showLife() : () => {};
  try {
    await trainRank(path, flags, environment);
  } finally {
    rest();
  }
}

async function trainRank(path: string, flags: TrainFlags, environment: Environment): Promise<void> {
  const launch = readLaunch(environment);
  const isShown = flags.explain === true || flags.plan === true;
  if (launch !== null && launch.rank > 0) return isShown ? undefined : workFor(launch, flags);
  // Before anything is loaded, so that workers that come early find somebody.
  const machines = launch === null || isShown ? undefined : await openMachines(launch, flags);
  try {
    await trainHere(path, flags, environment, machines);
  } catch (cause) {
    // A run that was stopped has ended as it should, and its workers may go; one that lost its parent will be started again.
    if (!(cause instanceof CommanderError) || cause.code === ORPHANED) await machines?.abandon();
    throw cause;
  } finally {
    await machines?.close();
  }
}

/** Workers that are joined by hand make a launch as any other: the flags say what its variables would. */
function environmentOf({ listen, workers }: TrainFlags): Environment {
  if (listen === undefined && workers === undefined) return process.env;
  if (listen === undefined || workers === undefined)
    throw new RerollError(
      "INVALID_OPTION",
      "--listen and --workers go together: where workers find this process, and how many it waits for.",
    );
  const launch = { RANK: "0", WORLD_SIZE: `${workers + 1}`, MASTER_ADDR: listen.host, MASTER_PORT: `${listen.port}` };
  return { ...process.env, ...launch, TORCHELASTIC_USE_AGENT_STORE: undefined };
}

async function trainHere(
  path: string,
  flags: TrainFlags,
  environment: Environment,
  machines: Machines | undefined,
): Promise<void> {
  const given = [...(flags.set ?? []), ...(flags.name === undefined ? [] : [`name=${JSON.stringify(flags.name)}`])];
  // Only now: what is imported here loads libtorch, which `--help` and a wrong flag need not wait for.
  // And before the run file: hooks for its TypeScript make every module that is loaded after them cost twice as much.
  await import("../../run/run-training.ts");
  const { loadRunFile } = await import("../../run/load-run-file.ts");
  const raw = await loadRunFile(path);
  const resume = flags.resume === "auto" ? await findRun(raw, given, environment) : resumeOf(flags);
  const sets = resume === null ? given : await setsOf(resume.folder, given);
  const { hubProgress, pinsOfRun } = await import("../open-hub.ts");
  const pins = resume === null ? new Map<string, string>() : pinsOfRun(resume.folder);
  const hub = { pins, isPlan: flags.plan === true, onProgress: hubProgress() };
  const file = await openRunFile(raw, sets, environment, hub);
  if (flags.explain === true) {
    const { explainRun: explain } = await import("../../run/explain-run.ts");
    console.log(explain(await file.resolve()));
    return;
  }
  const { lines, runsFolder, train } = await file.prepare();
  if (flags.plan === true) console.log(lines.join("\n"));
  else {
    // Before there is a folder: a run whose machines do not come has left nothing behind.
    await machines?.all();
    await runWith(path, { sets, resume, flags, environment, machines }, runsFolder, train);
  }
}

/** The newest run of the name that the file gives, where it is not finished. */
async function findRun(raw: RawRun, sets: readonly string[], environment: Environment): Promise<Resume | null> {
  const { resolve: settle } = await openRunFile(raw, sets, environment, {});
  const { name, tracking } = (await settle()).config;
  const { findUnfinishedRun } = await import("../../run/find-unfinished-run.ts");
  const folder = await findUnfinishedRun(tracking.folder, name);
  return folder === null ? null : { folder, mayBegin: true };
}

/** What the command line asks for. */
interface Asked {
  /** All `--set` words, also those of the run that is resumed. */
  readonly sets: readonly string[];
  readonly resume: Resume | null;
  readonly flags: TrainFlags;
  readonly environment: Environment;
  /** Workers of other machines, where there are some. */
  readonly machines: Machines | undefined;
}

/** The run to go on with, and the step of the checkpoint where one is named. */
interface Resume {
  readonly folder: string;
  readonly step?: number;
  /** Whether a run without a checkpoint begins again in its folder. Default: it is refused. */
  readonly mayBegin?: boolean;
}

function resumeOf({ resume: folder, resumeFrom, again }: TrainFlags): Resume | null {
  if (again !== undefined) return { folder: again, mayBegin: true };
  if (resumeFrom === undefined) return folder === undefined ? null : { folder };
  if (folder !== undefined && /^\d+$/.test(resumeFrom)) return { folder, step: Number(resumeFrom) };
  const checkpoint = resolve(resumeFrom);
  const step = /^step-(\d+)$/.exec(basename(checkpoint))?.[1];
  if (folder === undefined && step !== undefined) {
    return { folder: dirname(dirname(checkpoint)), step: Number(step) };
  }
  throw new RerollError(
    "INVALID_OPTION",
    `--resume-from takes the folder of a checkpoint, as in --resume-from runs/a/checkpoints/step-000040, or with --resume its step, as in --resume runs/a --resume-from 40: got ${JSON.stringify(resumeFrom)}.`,
  );
}

async function setsOf(folder: string, given: readonly string[]): Promise<readonly string[]> {
  const { readInfo } = await import("../../tracking/read-run.ts");
  const { joinSets } = await import("../../run/resume-run.ts");
  return joinSets((await readInfo(folder))?.sets ?? [], given);
}

/** Runs with a dashboard beside it where one is asked for, until it ends or is stopped. */
async function runWith(
  path: string,
  { sets, resume, flags, environment, machines }: Asked,
  runsFolder: string,
  run: (options: RunTrainingOptions) => Promise<unknown>,
): Promise<void> {
  const root = resume === null ? runsFolder : dirname(resume.folder);
  const dashboard = flags.dashboard === true ? await openBeside(root) : null;
  const { signal, exitCode, isOrphaned, release } = stopSignal(
    () => console.error("Stopping after this step. Press Ctrl-C again to stop at once."),
    flags.supervised,
  );
  try {
    await run({
      signal,
      ...(resume !== null && { resume: resume.folder }),
      ...(resume?.step !== undefined && { resumeFrom: resume.step }),
      ...(resume?.mayBegin === true && { mayBegin: true }),
      sets,
      version: readVersion(),
      environment,
      runFile: path,
      ...(machines !== undefined && { machines }),
      command: commandName,
      linkWords: linkWordsOf(flags),
      onFolder: (folder) => tellParent({ kind: "run", folder }),
    });
  } catch (cause) {
    if (!(cause instanceof RerollError && cause.code === "RUN_INTERRUPTED")) throw cause;
    console.error(cause.message);
  } finally {
    release();
    await dashboard?.close();
  }
  if (exitCode() !== 0) throw new CommanderError(exitCode(), isOrphaned() ? ORPHANED : "reroll.stopped", "");
}

/** The flags by which processes that were joined by hand find each other, as they are typed. */
function linkWordsOf({ listen, workers, tlsCert, tlsKey, tlsCa }: TrainFlags): readonly string[] {
  if (listen === undefined) return [];
  const { host, port } = listen;
  const flags = {
    listen: `${host.includes(":") ? `[${host}]` : host}:${port}`,
    workers,
    ...{ "tls-cert": tlsCert, "tls-key": tlsKey, "tls-ca": tlsCa },
  };
  return Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, `${value}`]));
}

const ORPHANED = "reroll.orphaned";

async function openBeside(root: string) {
  const { openDashboardBesideRun } = await import("../open-dashboard.ts");
  const dashboard = await openDashboardBesideRun(root);
  console.log(`dashboard: ${dashboard.url}`);
  return dashboard;
}

/**
 * A training run with its folder: makes or reopens the folder, tells the tracker what happens, and says in the end how it went.
 *
 * Whatever happens, `run.json` says finished, failed or interrupted. A new run that is refused before its first step leaves no folder.
 */
import { mkdir, rm, stat } from "node:fs/promises";
import { dirname, relative, resolve } from "node:path";
import { remember } from "../errors/redact-text.ts";
import { isRefusal } from "../errors/refusals.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { nameOfPath } from "../hub/hub-cache.ts";
import { jobOf } from "../machines/launch.ts";
import type { Machines } from "../machines/machines.ts";
import { guardForeignCalls } from "../rollout/foreign-calls.ts";
import type { ConsoleOptions } from "../tracking/console.ts";
import type { HealthLimits } from "../tracking/health.ts";
import type { OpenSink } from "../tracking/metric-sink.ts";
import { mlflowSink } from "../tracking/mlflow-sink.ts";
import { readRun } from "../tracking/read-run.ts";
import { runClock } from "../tracking/run-clock.ts";
import { type FolderOptions, RunFolder } from "../tracking/run-folder.ts";
import type { RunStatus } from "../tracking/run-record.ts";
import { openRunTracker, type RunTracker } from "../tracking/run-tracker.ts";
import { tensorboardSink } from "../tracking/tensorboard-sink.ts";
import { wandbSink } from "../tracking/wandb-sink.ts";
import { Checkpoints } from "./checkpoint.ts";
import { callsForeignCodeHere, hasForeignCode } from "./foreign-code.ts";
import { modelDigest } from "./model-digest.ts";
import { tryTeachers } from "./open-teachers.ts";
import type { PreparedRun } from "./prepare-run.ts";
import { hasCheckpoint, isResumable } from "./resumable.ts";
import { compareConfigs, expectSameModel, keptSets } from "./resume-run.ts";
import type { RunConfig } from "./run-config.ts";
import { maxSampledStaleness } from "./staleness-bound.ts";
import { type Opening, type TrainResult, trainRun } from "./train-run.ts";
import { stepsDone } from "./warm-start-progress.ts";
import { startWatchdog } from "./watchdog.ts";

/** What a run needs beside its config. */
export interface RunTrainingOptions {
  /** Ends the run after the step under way, with a checkpoint. */
  readonly signal: AbortSignal;
  /** The folder of the run to go on with; absent for a new run. */
  readonly resume?: string;
  /** The step of the checkpoint to go on from. Default: the latest one that is undamaged. */
  readonly resumeFrom?: number;
  /** Whether a run that is to be resumed begins again, in its folder, where it has nothing to go on from. Default: it is refused. */
  readonly mayBegin?: boolean;
  /** All `--set` words that made the config. The run keeps them, without secrets. */
  readonly sets?: readonly string[];
  /** Version of reroll, for `run.json`. */
  readonly version: string;
  /** Secrets of third parties are read from here. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The run file and the name of the program, for the commands that are suggested at the end. */
  readonly runFile: string;
  readonly command: string;
  /** Words that the command needs once more when the run is resumed: how its processes find each other. Default: none. */
  readonly linkWords?: readonly string[];
  /** Workers of other machines, where the run has some. */
  readonly machines?: Machines;
  /** Told where the run is as soon as it has a folder. */
  readonly onFolder?: (folder: string) => void;
  /** How the run is shown. Absent: in the terminal; null: nowhere. */
  readonly console?: ConsoleOptions | null;
}

/** Trains to the end, or until the signal stops it. */
export async function runTraining({ config, plan }: PreparedRun, options: RunTrainingOptions): Promise<TrainResult> {
  await tryTeachers(config);
  const run: TrackedRun = {
    config,
    numSteps: config.loop.steps,
    numWarmSteps: config.warmStart?.steps ?? 0,
    recipe: config.algorithm.type,
    model: nameOfPath(config.model.path ?? config.model.preset ?? ""),
    modelPath: config.model.path,
    ...{ isEvaluable: true, isExportable: true },
    ...(hasForeignCode(config) && { maxBlockedMs: 1000 * config.rollout.limits.episodeSeconds }),
    callsForeignCode: callsForeignCodeHere(config, options.runFile),
    lines: plan.lines,
    decoding: plan.decoding,
    limits: { maxStaleness: maxSampledStaleness(config), maxReplyTokens: config.rollout.sampling.maxTokens },
    folder: { trajectoryInterval: config.tracking.trajectoriesEvery, maxTrajectoryGroups: config.tracking.maxGroups },
  };
  return trackRun(run, options, (open, opening) =>
    trainRun(config, { ...open, opening, clock: runClock, runFile: options.runFile }),
  );
}

/** A run of any kind, as its folder and its tracker see it. */
export interface TrackedRun {
  readonly config: Pick<RunConfig, "name" | "seed" | "checkpoint"> & {
    readonly tracking: Omit<RunConfig["tracking"], "trajectoriesEvery" | "maxGroups">;
  };
  readonly numSteps: number;
  /** Supervised steps before the first rollout step. Default 0. */
  readonly numWarmSteps?: number;
  readonly recipe: string;
  readonly model: string;
  /** Folder of the model that the run starts from. Absent: it draws its own weights. */
  readonly modelPath?: string | null;
  /** Whether there is something for `reroll eval` to measure it on. */
  readonly isEvaluable: boolean;
  /** Whether `reroll export` can write it for other tools. */
  readonly isExportable: boolean;
  /** How long code of the run file may block this thread before the run has failed. Absent: it brings none. */
  readonly maxBlockedMs?: number;
  /** Whether code of the run file is called in this thread, so that what it throws later has to be traced to its calls. Default false. */
  readonly callsForeignCode?: boolean;
  /** Limits that the health of the run is judged by. */
  readonly limits?: HealthLimits;
  /** Lines shown before the first step. */
  readonly lines: readonly string[];
  /** See RunInfo. Default null. */
  readonly decoding?: string | null;
  readonly folder: FolderOptions;
}

/** A run whose folder is open. */
export interface OpenRun {
  readonly folder: string;
  readonly tracker: RunTracker;
  /** Aborted only between two steps, and before the first while parts of the run are being opened. */
  readonly signal: AbortSignal;
  /** Aborted as soon as somebody asks the run to stop, for waits that its step can do without. Absent: nobody asks. */
  readonly asked?: AbortSignal;
  /** Whether to resume from the latest checkpoint in the folder. */
  readonly isResumed: boolean;
  readonly machines?: Machines;
}

/** Opens the folder, lets the run go on in it, and says in the end how it went. */
export async function trackRun<Result>(
  run: TrackedRun,
  options: RunTrainingOptions,
  train: (open: OpenRun, opening: Opening) => Promise<Result>,
): Promise<Result> {
  const sinks = sinksOf(run.config, options.environment);
  const job = jobOf(options.environment);
  const { folder, startStep, statements } = await openFolder({ ...run, folder: { ...run.folder, job } }, options);
  const next = (status: RunStatus) =>
    isRefused ? null : nextCommands(run, options, relative("", folder.path), status);
  // Passed on between two steps only: an abort in the middle of one would lose what was sampled for it.
  const stop = new AbortController();
  let isRefused = false;
  let hasSteps = false;
  const onStep = () => {
    hasSteps = true;
    if (options.signal.aborted) stop.abort();
  };
  const opening: Opening = async (parts) => {
    let end = () => {};
    const stopped = new Promise<never>((_, reject) => {
      end = () => {
        if (hasSteps) return;
        stop.abort();
        reject(stop.signal.reason);
      };
    });
    options.signal.addEventListener("abort", end);
    return Promise.race([parts, stopped]).finally(() => options.signal.removeEventListener("abort", end));
  };
  const tracker = openRunTracker({
    folder,
    config: run.config,
    startStep,
    numWarmSteps: run.numWarmSteps ?? 0,
    clock: runClock,
    sinks,
    ...(run.limits !== undefined && { limits: run.limits }),
    console: options.console === undefined ? { next } : options.console,
    onStep,
  });
  const report = (text: string) => tracker.note(text);
  const { maxBlockedMs, callsForeignCode = false } = run;
  const guard = guardForeignCalls(report, callsForeignCode);
  const watchdog =
    maxBlockedMs === undefined ? null : startWatchdog({ folder: folder.path, limitMs: maxBlockedMs, report });
  try {
    for (const line of [...run.lines, ...statements]) tracker.note(line);
    const open: OpenRun = {
      folder: folder.path,
      tracker,
      signal: stop.signal,
      asked: options.signal,
      isResumed: options.resume !== undefined,
      ...(options.machines !== undefined && { machines: options.machines }),
    };
    const training = train(open, opening);
    // A machine that is lost ends the run at once, and not when its rank is asked the next time.
    const lost = options.machines === undefined ? [] : [options.machines.lost];
    const result = await Promise.race([training, guard.broken, ...lost]);
    await tracker.setStatus(stop.signal.aborted ? "interrupted" : "finished");
    return result;
  } catch (cause) {
    guard.putBack();
    if ([stop, options].some(({ signal }) => signal.aborted && cause === signal.reason)) {
      await tracker.setStatus("interrupted");
      throw new RerollError("RUN_INTERRUPTED", `The run was stopped before its first step. ${resumeHint(folder.path)}`);
    }
    isRefused = isRefusal(cause) && !hasSteps && options.resume === undefined;
    await tracker.setStatus("failed", cause instanceof Error ? cause.message : String(cause));
    throw cause;
  } finally {
    guard.release();
    await watchdog?.close();
    await tracker.close();
    // Nothing has run: there is nothing to look at, and the name is free for what is written instead.
    if (isRefused) await rm(folder.path, { recursive: true });
  }
}

/** Makes `<root>/<name>`, or the first of `<name>-2`, `<name>-3` that is free. Two processes never make the same one. */
export async function newFolder(root: string, name: string): Promise<string> {
  await makeRoot(root);
  for (let number = 1; ; number++) {
    const path = resolve(root, number === 1 ? name : `${name}-${number}`);
    try {
      await mkdir(path);
      return path;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw cause;
    }
  }
}

async function makeRoot(root: string): Promise<void> {
  try {
    await makeFolder(resolve(root));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RerollError(
      "RUN_FOLDER_WRITE",
      `tracking.folder is ${JSON.stringify(root)}, which cannot be made: ${reason}. Set it to a folder that can be written to.`,
      { root },
      { cause },
    );
  }
}

/** Not with `recursive`: under /proc, where a folder is there and takes no other, Node would try that for ever. */
async function makeFolder(path: string): Promise<void> {
  if (await isFolder(path)) return;
  await makeFolder(dirname(path));
  try {
    await mkdir(path);
  } catch (cause) {
    // Another process may have come first.
    if (!(await isFolder(path))) throw cause;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

interface OpenedFolder {
  readonly folder: RunFolder;
  /** The step that the run goes on after. */
  readonly startStep: number;
  /** Sentences about what changed since the run was started. */
  readonly statements: readonly string[];
}

async function openFolder(run: TrackedRun, options: RunTrainingOptions): Promise<OpenedFolder> {
  const { config, numSteps, recipe, model, decoding = null } = run;
  const { resume, mayBegin = false, onFolder = () => {} } = options;
  const sets = keptSets(options.sets ?? [], config);
  const beginsAgain = resume !== undefined && mayBegin && !isResumable(resume);
  if (resume !== undefined && !beginsAgain) {
    const opened = await reopenFolder(run, resume, options.resumeFrom, sets);
    onFolder(opened.folder.path);
    return opened;
  }
  const { name, seed, tracking } = config;
  const digest = run.modelPath ? await modelDigest(run.modelPath) : null;
  const facts = { name, numSteps, recipe, model, modelDigest: digest, decoding };
  const plan = { ...facts, tags: tracking.tags, seed, version: options.version, sets };
  const path = resolve(resume ?? (await newFolder(tracking.folder, name)));
  // At once: a process that is killed from here on has left this folder behind, and the next one begins in it.
  onFolder(path);
  const folder = await RunFolder.create(path, plan, config, { ...run.folder, replaces: beginsAgain });
  const statements = beginsAgain ? ["The run had no checkpoint yet and begins again."] : [];
  return { folder, startStep: 0, statements };
}

/** Nothing in the folder is touched before it is ours alone and the config has been found to fit. */
async function reopenFolder(
  { config, numSteps, numWarmSteps = 0, modelPath = null, folder: folderOptions }: TrackedRun,
  path: string,
  resumeFrom: number | undefined,
  sets: readonly string[],
): Promise<OpenedFolder> {
  let [startStep, statements] = [0, [] as readonly string[]];
  // Stopped in its warm start, which goes on from a state of its own, or from the beginning.
  const isWarming = numWarmSteps > 0 && resumeFrom === undefined && !hasCheckpoint(path);
  const choose = async () => {
    const saved = await readRun(path);
    const changes = compareConfigs(saved?.config, config, path);
    await expectSameModel(saved?.info.modelDigest ?? null, modelPath, path);
    if (isWarming) {
      statements = changes;
      return stepsDone(path);
    }
    const settled = await new Checkpoints(path, config.checkpoint.keep).settle(resumeFrom);
    [startStep, statements] = [settled.step, [...settled.statements, ...changes]];
    return startStep;
  };
  const kind = isWarming ? "supervised" : "train";
  const folder = await RunFolder.openForResume(resolve(path), choose, folderOptions, kind);
  await Promise.all([folder.setConfig(config), folder.setInfo({ numSteps, sets })]);
  return { folder, startStep, statements };
}

function sinksOf({ tracking }: TrackedRun["config"], environment: RunTrainingOptions["environment"]): OpenSink[] {
  return [
    ...(tracking.tensorboard ? [tensorboardSink()] : []),
    ...(tracking.wandb === null ? [] : [wandbSink(wandbOptions(tracking.wandb, environment.WANDB_API_KEY))]),
    ...(tracking.mlflow === null
      ? []
      : [mlflowSink({ baseUrl: tracking.mlflow.url.reveal(), experiment: tracking.mlflow.experiment })]),
  ];
}

function wandbOptions({ project, url }: NonNullable<RunConfig["tracking"]["wandb"]>, key: string | undefined) {
  if (key !== undefined && key !== "") {
    remember(key);
    return { project, baseUrl: url.reveal(), key };
  }
  throw new RerollError(
    "MISSING_KEY",
    "tracking.wandb is set, and WANDB_API_KEY is not. Export the key, or set tracking.wandb to null.",
  );
}

/** Commands to suggest after a run. */
function nextCommands(
  { isEvaluable, isExportable }: TrackedRun,
  { runFile, command, linkWords = [] }: RunTrainingOptions,
  folder: string,
  status: RunStatus,
): string[] {
  if (status !== "finished")
    return isResumable(folder) ? [[command, "train", runFile, "--resume", folder, ...linkWords].join(" ")] : [];
  return [
    `${command} dashboard`,
    ...(isEvaluable ? [`${command} eval ${folder} --run-file ${runFile}`] : []),
    ...(isExportable ? [`${command} export ${folder} --out model`] : []),
  ];
}

function resumeHint(folder: string): string {
  if (hasCheckpoint(folder)) return "It can be resumed from its latest checkpoint.";
  return isResumable(folder)
    ? "Its warm start can be resumed where it was."
    : "It had no checkpoint yet, so there is nothing to resume.";
}

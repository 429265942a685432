/**
 * The folder of a run, on the writing side: `runs/<name>/` with everything that is known of it.
 *
 * `create` starts one and refuses to write into an old one, unless it is to replace one without a checkpoint; `openForResume` goes on with one
 * as it was at a step, and forgets what was written after it. From then until `close` no other process can open the folder. Lines are appended
 * in the background; only trajectories and `run.json` are waited for.
 */

import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { redact } from "../errors/redact.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { CLAIMS, claimFolder, type FolderClaim } from "../files/folder-claim.ts";
import { replaceText } from "../files/replace-file.ts";
import type { WorkerFacts } from "../flow/worker-facts.ts";
import { keepJsonLines } from "./json-lines.ts";
import { LineFile } from "./line-file.ts";
import { parseMetrics, readInfo } from "./read-run.ts";
import {
  type MetricRecord,
  type RunInfo,
  runFiles,
  type SpanRecord,
  trajectoryFile,
  type WarningRecord,
} from "./run-record.ts";
import { type RecordedRollout, trajectoryRecords } from "./trajectory-record.ts";

/** The facts about a run that its owner provides. The rest of `run.json` is filled in. */
export type RunPlan = Pick<RunInfo, "name" | "numSteps" | "recipe" | "model" | "tags" | "seed" | "version"> &
  Partial<Pick<RunInfo, "sets" | "modelDigest" | "decoding">>;

/** How much of the trajectories is written, and how often. */
export interface FolderOptions {
  /** Steps between two whose trajectories are written. Default 1; 0 writes none. */
  readonly trajectoryInterval?: number;
  /** Groups of each fate whose trajectories are written per step. Default 32: what a person may look at. */
  readonly maxTrajectoryGroups?: number;
  /** Time between two writes of what was appended. Default 1000. */
  readonly flushMs?: number;
  /** The scheduler's name for the job that writes it: one that is started again elsewhere may go on. Default: none. */
  readonly job?: string;
  /** Whether a new run takes the place of one that has come to nothing: all that it left but its log is removed. Default false. */
  readonly replaces?: boolean;
}

/** The one writer of a run's folder. */
export class RunFolder {
  readonly path: string;
  readonly #claim: FolderClaim;
  readonly #options: Required<FolderOptions>;
  readonly #metrics: LineFile;
  readonly #spans: LineFile;
  readonly #warnings: LineFile;
  readonly #log: LineFile;
  #info: RunInfo;
  #writingInfo: Promise<void> = Promise.resolve();
  #writingWorkers: Promise<void> = Promise.resolve();

  private constructor(path: string, info: RunInfo, options: FolderOptions, claim: FolderClaim) {
    this.path = path;
    this.#claim = claim;
    this.#info = info;
    this.#options = {
      trajectoryInterval: 1,
      maxTrajectoryGroups: 32,
      flushMs: 1000,
      job: "",
      replaces: false,
      ...options,
    };
    const lineFile = (name: string) => new LineFile(join(path, name), this.#options.flushMs);
    this.#metrics = lineFile(runFiles.metrics);
    this.#spans = lineFile(runFiles.spans);
    this.#warnings = lineFile(runFiles.warnings);
    this.#log = lineFile(runFiles.log);
  }

  /** A new run. `config` is the resolved one; it is written without secrets. */
  static async create(path: string, plan: RunPlan, config: unknown, options: FolderOptions = {}): Promise<RunFolder> {
    await mkdir(path, { recursive: true });
    return withClaim(path, options.job, (claim) => RunFolder.#create(path, plan, config, options, claim));
  }

  static async #create(
    path: string,
    plan: RunPlan,
    config: unknown,
    options: FolderOptions,
    claim: FolderClaim,
  ): Promise<RunFolder> {
    if (options.replaces === true && (await isWorthNothing(path))) await clear(path);
    if (await isThere(join(path, runFiles.info))) {
      throw new RerollError(
        "RUN_EXISTS",
        `${path} already holds a run. Resume it, give the new one another name, or delete the folder.`,
        { path },
      );
    }
    const subfolders = [runFiles.trajectories, runFiles.checkpoints, runFiles.tensorboard];
    await Promise.all(subfolders.map((name) => mkdir(join(path, name), { recursive: true })));
    const info = {
      sets: [],
      modelDigest: null,
      decoding: null,
      ...plan,
      ...startOf(),
      id: randomUUID(),
      startedAt: new Date().toISOString(),
    };
    const folder = new RunFolder(path, info, options, claim);
    await Promise.all([folder.setConfig(config), folder.setInfo({})]);
    return folder;
  }

  /**
   * Goes on after a step: what was written later is that of a life that did not happen. Supervised steps have their own count; where
   * training goes on they are over, and stay. Where the step is still to be found out, that happens once the folder is ours alone.
   */
  static async openForResume(
    path: string,
    step: number | (() => Promise<number>),
    options: FolderOptions = {},
    kind: "train" | "supervised" = "train",
  ): Promise<RunFolder> {
    await expectRun(path);
    return withClaim(path, options.job, async (claim) =>
      RunFolder.#reopen(path, typeof step === "number" ? step : await step(), options, kind, claim),
    );
  }

  static async #reopen(
    path: string,
    step: number,
    options: FolderOptions,
    kind: "train" | "supervised",
    claim: FolderClaim,
  ): Promise<RunFolder> {
    const info = await expectRun(path);
    const isKept = (record: MetricRecord) =>
      (kind === "train" && record.kind === "supervised") ||
      (record.step <= step && (kind === "train" || record.kind === kind));
    let lastMs = Number.NEGATIVE_INFINITY;
    await keepJsonLines(join(path, runFiles.metrics), (json) => {
      const record = parseMetrics(json);
      if (record === undefined || !isKept(record)) return false;
      lastMs = Math.max(lastMs, record.timeMs);
      return true;
    });
    await Promise.all([
      keepJsonLines(join(path, runFiles.spans), (json) => Number((json as Partial<SpanRecord>)?.endMs) <= lastMs),
      keepJsonLines(
        join(path, runFiles.warnings),
        (json) => Number((json as Partial<WarningRecord>)?.timeMs) <= lastMs,
      ),
      removeTrajectoriesAfter(join(path, runFiles.trajectories), kind === "train" ? step : 0),
    ]);
    const folder = new RunFolder(path, { ...info, ...startOf() }, options, claim);
    await folder.setInfo({});
    return folder;
  }

  /** Writes the config that the run goes on with, without secrets. */
  setConfig(config: unknown): Promise<void> {
    return replaceText(join(this.path, runFiles.config), asJson(redact(config)));
  }

  get info(): RunInfo {
    return this.#info;
  }

  /** Rewrites `run.json` with these changes. */
  setInfo(changes: Partial<RunInfo>): Promise<void> {
    this.#info = { ...this.#info, ...changes };
    const info = this.#info;
    this.#writingInfo = this.#writingInfo.then(() => replaceText(join(this.path, runFiles.info), asJson(info)));
    return this.#writingInfo;
  }

  appendMetrics({ step, timeMs, kind, metrics }: MetricRecord): void {
    const values = Object.entries(metrics).map(([name, value]) => [name, Number.isFinite(value) ? value : `${value}`]);
    this.#metrics.append(
      JSON.stringify({ step, timeMs: Math.round(timeMs), kind, metrics: Object.fromEntries(values) }),
    );
  }

  /** Times are written in whole milliseconds. */
  appendSpan({ worker, stage, startMs, endMs, step }: SpanRecord): void {
    const span = { worker, stage, startMs: Math.round(startMs), endMs: Math.round(endMs), step };
    this.#spans.append(JSON.stringify(span));
  }

  /** The workers of the run as they are now. Written one after the other. */
  setWorkers(workers: readonly WorkerFacts[]): Promise<void> {
    this.#writingWorkers = this.#writingWorkers.then(() =>
      replaceText(join(this.path, runFiles.workers), asJson({ workers })),
    );
    return this.#writingWorkers;
  }

  appendWarning(warning: WarningRecord): void {
    this.#warnings.append(JSON.stringify({ ...warning, timeMs: Math.round(warning.timeMs) }));
  }

  /** A line of `log.txt`, with the time before it. */
  appendLog(text: string): void {
    this.#log.append(`${new Date().toISOString()} ${text.replaceAll("\n", " | ")}`);
  }

  /** How many groups of each fate a step's record holds at most: 0 for a step that is not recorded. */
  recordedGroups(step: number): number {
    const { trajectoryInterval, maxTrajectoryGroups } = this.#options;
    return trajectoryInterval === 0 || step % trajectoryInterval !== 0 ? 0 : maxTrajectoryGroups;
  }

  /** Writes the trajectories of a step, where the options ask for them. Other work goes on between two of them. */
  async writeTrajectories(step: number, rollout: RecordedRollout): Promise<void> {
    const maxGroups = this.recordedGroups(step);
    if (maxGroups === 0) return;
    const file = new LineFile(join(this.path, runFiles.trajectories, trajectoryFile(step)), this.#options.flushMs);
    for (const record of trajectoryRecords(step, rollout, maxGroups)) {
      file.append(JSON.stringify(record));
      await setImmediate();
    }
    await file.close();
  }

  async flush(): Promise<void> {
    await this.#writingWorkers;
    await Promise.all([this.#metrics, this.#spans, this.#warnings, this.#log].map((file) => file.flush()));
  }

  /** Writes what is left. The status is set before, by whoever knows it. */
  async close(): Promise<void> {
    try {
      await Promise.all([this.#metrics, this.#spans, this.#warnings, this.#log].map((file) => file.close()));
      await Promise.all([this.#writingInfo, this.#writingWorkers]);
    } finally {
      await this.#claim.release();
    }
  }
}

/** Opens a folder that no other process may open until it is closed, or until opening it fails. */
async function withClaim<Result>(
  path: string,
  job: string | undefined,
  open: (claim: FolderClaim) => Promise<Result>,
): Promise<Result> {
  const claim = await claimFolder(path, job);
  try {
    return await open(claim);
  } catch (cause) {
    await claim.release();
    throw cause;
  }
}

async function expectRun(path: string): Promise<RunInfo> {
  const info = await readInfo(path);
  if (info !== undefined) return info;
  throw new RerollError(
    "RUN_NOT_FOUND",
    `${path} holds no run to resume: it has no readable ${runFiles.info}. "reroll runs" lists the runs there are.`,
    {
      path,
    },
  );
}

function startOf(): Pick<RunInfo, "status" | "error" | "pid" | "host" | "endedAt"> {
  return { status: "running", error: null, pid: process.pid, host: hostname(), endedAt: null };
}

/** Without a checkpoint, whole or damaged. Asked again here, where no other process can write one. */
async function isWorthNothing(folder: string): Promise<boolean> {
  const names = await readdir(join(folder, runFiles.checkpoints)).catch(() => []);
  return names.every((name) => name.endsWith(".writing"));
}

/** The claim is ours, and the log tells what happened. */
async function clear(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name !== CLAIMS && name !== runFiles.log);
  await Promise.all(names.map((name) => rm(join(folder, name), { recursive: true })));
}

async function removeTrajectoriesAfter(folder: string, step: number): Promise<void> {
  const names = await readdir(folder);
  const isLater = (name: string) => Number(/^step-(\d+)\.jsonl$/.exec(name)?.[1] ?? 0) > step;
  await Promise.all(names.filter(isLater).map((name) => rm(join(folder, name))));
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

function asJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

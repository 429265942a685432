/**
 * The folder of a run, on the reading side: for lists, comparisons and dashboards.
 *
 * In: a folder that a run may be writing to, that may be half copied or gone. Out: what can be read. Nothing here throws because a
 * file is torn or missing. Files that grow can be read on from where the last reading ended.
 */
import { readdir, readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { redact } from "../errors/redact.ts";
import { isAlive } from "../files/folder-claim.ts";
import { type JsonLines, readJsonLines } from "./json-lines.ts";
import {
  type MetricRecord,
  type RunInfo,
  runFiles,
  type SpanRecord,
  trajectoryFile,
  type WarningRecord,
  workers,
} from "./run-record.ts";
import type { TrajectoryRecord } from "./trajectory-record.ts";

/** A run, with everything that is small. */
export interface ReadRun {
  readonly folder: string;
  readonly info: RunInfo;
  /** The resolved config as it was written; null where it cannot be read. */
  readonly config: unknown;
  readonly metrics: readonly MetricRecord[];
  readonly warnings: readonly WarningRecord[];
  /** Steps with trajectories, in order. */
  readonly trajectorySteps: readonly number[];
}

/** Reads a run; undefined when the folder holds none. */
export async function readRun(folder: string): Promise<ReadRun | undefined> {
  const info = await readInfo(folder);
  if (info === undefined) return undefined;
  const [config, metrics, warnings, trajectorySteps] = await Promise.all([
    readJson(join(folder, runFiles.config)),
    readMetrics(folder),
    readWarnings(folder),
    listTrajectorySteps(folder),
  ]);
  return { folder, info, config: redact(config), metrics: metrics.values, warnings: warnings.values, trajectorySteps };
}

/** `run.json`. A run whose process is gone from this machine without a word is called interrupted, and its error says so. */
export async function readInfo(folder: string): Promise<RunInfo | undefined> {
  const { data: info } = infoSchema.safeParse(await readJson(join(folder, runFiles.info)));
  if (info?.status !== "running" || info.host !== hostname() || isAlive(info.pid)) return info;
  return { ...info, status: "interrupted", error: DIED };
}

/** What is known of a process that could not say why it ended. */
const DIED = "Its process ended without a word: it was killed, or ran out of memory.";

/** All runs in a folder of runs, the newest first. */
export async function listRuns(root: string): Promise<readonly { readonly folder: string; readonly info: RunInfo }[]> {
  const names = await namesIn(root);
  const runs = await Promise.all(
    names.map(async (name) => {
      const folder = join(root, name);
      const info = await readInfo(folder);
      return info === undefined ? [] : [{ folder, info }];
    }),
  );
  return runs.flat().sort((a, b) => (a.info.startedAt < b.info.startedAt ? 1 : -1));
}

/** The metrics from a byte on, in the order in which they were written. */
export function readMetrics(folder: string, fromByte = 0): Promise<JsonLines<MetricRecord>> {
  return readJsonLines(join(folder, runFiles.metrics), parseMetrics, fromByte);
}

/** A line of `metrics.jsonl`; undefined where it is none. */
export function parseMetrics(json: unknown): MetricRecord | undefined {
  return metricSchema.safeParse(json).data;
}

/** The warnings from a byte on. */
export function readWarnings(folder: string, fromByte = 0): Promise<JsonLines<WarningRecord>> {
  return readJsonLines(join(folder, runFiles.warnings), (json) => warningSchema.safeParse(json).data, fromByte);
}

/** The timeline from a byte on. */
export function readSpans(folder: string, fromByte = 0): Promise<JsonLines<SpanRecord>> {
  return readJsonLines(join(folder, runFiles.spans), (json) => spanSchema.safeParse(json).data, fromByte);
}

/** Reads the trajectories of a step; none for a step without a record. */
export function readTrajectories(folder: string, step: number): Promise<JsonLines<TrajectoryRecord>> {
  return readJsonLines(join(folder, runFiles.trajectories, trajectoryFile(step)), asTrajectory);
}

/** The steps whose trajectories were written, in order. */
async function listTrajectorySteps(folder: string): Promise<readonly number[]> {
  const names = await namesIn(join(folder, runFiles.trajectories));
  return names.flatMap((name) => /^step-(\d+)\.jsonl$/.exec(name)?.slice(1).map(Number) ?? []).sort((a, b) => a - b);
}

const infoSchema = z.object({
  id: z.string(),
  name: z.string(),
  status: z.enum(["running", "finished", "failed", "interrupted"]),
  error: z.string().nullable(),
  pid: z.number(),
  host: z.string(),
  startedAt: z.string(),
  endedAt: z.string().nullable(),
  numSteps: z.number(),
  recipe: z.string(),
  model: z.string(),
  modelDigest: z.string().nullable().default(null),
  decoding: z.string().nullable().default(null),
  tags: z.array(z.string()),
  seed: z.number(),
  version: z.string(),
  sets: z.array(z.string()).default([]),
});

const metricSchema = z.object({
  step: z.number(),
  timeMs: z.number(),
  kind: z.enum(["train", "validation", "supervised"]),
  // NaN and the infinities come as text.
  metrics: z.record(z.string(), z.union([z.number(), z.enum(["NaN", "Infinity", "-Infinity"]).transform(Number)])),
});

const warningSchema = z.object({
  step: z.number(),
  timeMs: z.number(),
  code: z.string(),
  text: z.string(),
  link: z.string().nullable(),
});

const spanSchema = z.object({
  worker: z.enum(workers),
  stage: z.string(),
  startMs: z.number(),
  endMs: z.number(),
  step: z.number(),
});

/** Trajectories are large and written by us: what has the key of one is taken for one. */
function asTrajectory(json: unknown): TrajectoryRecord | undefined {
  return typeof json === "object" && json !== null && "turns" in json ? (json as TrajectoryRecord) : undefined;
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    return null;
  }
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}

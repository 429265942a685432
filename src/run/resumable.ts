/** What a run folder has to go on from. Reads names alone, so that a parent that only watches a run need not load what trains it. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { runFiles } from "../tracking/run-record.ts";

/** The step of the latest checkpoint; -1 where there is none. */
export function latestStep(folder: string): number {
  const root = join(folder, runFiles.checkpoints);
  const names = existsSync(root) ? readdirSync(root) : [];
  return Math.max(-1, ...names.flatMap((name) => /^step-(\d+)$/.exec(name)?.[1] ?? []).map(Number));
}

/** Whether there is a checkpoint to go on from. */
export function hasCheckpoint(folder: string): boolean {
  return latestStep(folder) >= 0;
}

/** Whether there is a checkpoint, or a warm start that was begun and goes on where it was. */
export function isResumable(folder: string): boolean {
  return hasCheckpoint(folder) || WARM_START.some((name) => existsSync(join(folder, name)));
}

const WARM_START = ["warm-start", "warm-start.partial"];

/**
 * The runs of one folder, found by the names of their folders.
 *
 * In: a folder of runs. Out: the list, and open runs whose files are read once and after that only where they have
 * grown. A key is a name that the folder really contains, never a path; links are not runs. The runs looked at last
 * stay open.
 */
import { readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { readInfo } from "../tracking/read-run.ts";
import { type RunInfo, runFiles } from "../tracking/run-record.ts";
import type { ListedRun } from "./answers.ts";
import { MetricColumns } from "./metric-columns.ts";
import { openPlainFile } from "./open-plain-file.ts";
import { SpanColumns } from "./span-columns.ts";
import { TrajectoryIndex } from "./trajectory-index.ts";

/** Runs whose metrics are held in memory. */
const MAX_OPEN = 32;

/** A run and what was read of it. */
interface OpenRun {
  readonly key: string;
  readonly folder: string;
  readonly metrics: MetricColumns;
  readonly trajectories: TrajectoryIndex;
  readonly spans: SpanColumns;
}

/** All runs of a folder. */
export class RunStore {
  readonly #root: string;
  readonly #open = new Map<string, OpenRun>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Lists runs, the newest first. Empty if the folder does not exist yet: a run may be about to make it. */
  async list(): Promise<readonly ListedRun[]> {
    const root = await realpath(this.#root).catch(() => undefined);
    if (root === undefined) return [];
    const entries = await readdir(root, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const runs = await Promise.all(
      folders.map(async (key) => {
        const info = await infoOf(join(root, key)).catch(() => undefined);
        return info === undefined ? [] : [{ key, info }];
      }),
    );
    return runs.flat().sort((a, b) => (a.info.startedAt < b.info.startedAt ? 1 : -1));
  }

  /** Throws if the folder does not contain such a run, or no longer does. */
  async open(key: string): Promise<OpenRun & { readonly info: RunInfo }> {
    const root = await realpath(this.#root).catch(() => undefined);
    const names = root === undefined ? [] : await readdir(root, { withFileTypes: true });
    const isHere = names.some((entry) => entry.isDirectory() && entry.name === key);
    const folder = join(root ?? "", key);
    const info = isHere ? await infoOf(folder) : undefined;
    if (info === undefined) {
      this.#open.delete(key);
      throw missing(key);
    }
    return { ...this.#reopen(key, folder), info };
  }

  #reopen(key: string, folder: string): OpenRun {
    const run = this.#open.get(key) ?? {
      ...{ key, folder },
      metrics: new MetricColumns(folder),
      trajectories: new TrajectoryIndex(folder),
      spans: new SpanColumns(folder),
    };
    // The last in the map is the one used last.
    this.#open.delete(key);
    this.#open.set(key, run);
    const [oldest] = this.#open.keys();
    if (this.#open.size > MAX_OPEN && oldest !== undefined) this.#open.delete(oldest);
    return run;
  }
}

async function infoOf(folder: string): Promise<RunInfo | undefined> {
  const file = await openPlainFile(join(folder, runFiles.info));
  await file?.close();
  return file === undefined ? undefined : readInfo(folder);
}

function missing(key: string): RerollError {
  return new RerollError(
    "RUN_NOT_FOUND",
    `There is no run "${key}" here, or not any more: its folder was moved, renamed or deleted. Choose one from the list of runs.`,
    { key },
  );
}

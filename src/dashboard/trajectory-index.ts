/**
 * The trajectories of a run, and where each is in its files.
 *
 * In: the files of the steps, read once and after that only where they have grown. Out: rows that can be filtered and
 * paged, and single records read from their place. Tens of thousands of trajectories take some megabytes here; their
 * tokens stay in the files.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { runFiles } from "../tracking/run-record.ts";
import { type TrajectoryRecord, trajectoryFates } from "../tracking/trajectory-record.ts";
import type { TrajectoryRow } from "./answers.ts";
import { GrowingFile } from "./growing-file.ts";
import { readLineAt } from "./tail-lines.ts";
import { withAdvantages } from "./trajectory-filter.ts";

/** A row, and the line it stands for. */
interface Indexed {
  readonly row: TrajectoryRow;
  readonly start: number;
  readonly numBytes: number;
}

interface StepFile {
  readonly path: string;
  readonly file: GrowingFile;
  readonly rows: Indexed[];
}

/** An index that grows with the run. */
export class TrajectoryIndex {
  readonly #folder: string;
  readonly #files = new Map<number, StepFile>();
  #updating: Promise<void> | undefined;
  /** All rows in order, until something changes. */
  #rows: readonly TrajectoryRow[] | undefined;

  constructor(folder: string) {
    this.#folder = join(folder, runFiles.trajectories);
  }

  get isReading(): boolean {
    return this.#updating !== undefined;
  }

  /** Reads what is new. Until that is done, `rows` gives what is known. */
  update(): Promise<void> {
    this.#updating ??= this.#read().finally(() => {
      this.#updating = undefined;
    });
    return this.#updating;
  }

  /** Steps with trajectories, in order. */
  steps(): readonly number[] {
    return [...this.#files.keys()].sort((a, b) => a - b);
  }

  /** All rows read so far, step by step, with their advantages where known. */
  rows(): readonly TrajectoryRow[] {
    this.#rows ??= withAdvantages(this.steps().flatMap((step) => this.#files.get(step)!.rows.map(({ row }) => row)));
    return this.#rows;
  }

  /** The trajectories of one group, in the order of their samples. */
  group(step: number, groupId: string): readonly TrajectoryRow[] {
    const rows = this.rows().filter((row) => row.step === step && row.groupId === groupId);
    return rows.sort((a, b) => a.sampleIndex - b.sampleIndex);
  }

  /** Reads a whole record. Throws if there is none, or no longer one. */
  async record(step: number, id: string): Promise<TrajectoryRecord> {
    const stepFile = this.#files.get(step);
    const found = stepFile?.rows.find(({ row }) => row.id === id);
    const text = found && (await readLineAt(stepFile!.path, found.start, found.numBytes));
    const record = text === undefined ? undefined : parseRecord(text);
    // The file may have been rewritten since it was read.
    if (record?.id !== id) throw missing(step, id);
    return record;
  }

  async #read(): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    const steps = names.flatMap((name) => {
      const digits = /^step-(\d+)\.jsonl$/.exec(name)?.[1];
      return digits === undefined ? [] : [{ step: Number(digits), path: join(this.#folder, name) }];
    });
    const known = new Set(steps.map(({ step }) => step));
    const onChange = () => {
      this.#rows = undefined;
    };
    for (const step of this.#files.keys()) if (!known.has(step) && this.#files.delete(step)) onChange();
    for (const { step, path } of steps.sort((a, b) => a.step - b.step)) {
      if (!this.#files.has(step)) this.#files.set(step, openStep(step, path, onChange));
      await this.#files.get(step)!.file.update();
    }
  }
}

function openStep(step: number, path: string, onChange: () => void): StepFile {
  const rows: Indexed[] = [];
  const file = new GrowingFile(path, {
    take: (json, line) => {
      const row = toRow(step, json);
      if (row === undefined) return;
      rows.push({ row, start: line.start, numBytes: line.numBytes });
      onChange();
    },
    onReset: () => {
      rows.length = 0;
      onChange();
    },
  });
  return { path, file, rows };
}

/** The part of a record that a row needs; records without it are not shown. */
const rowSchema = z.object({
  id: z.string(),
  groupId: z.string(),
  sampleIndex: z.number(),
  fate: z.enum(trajectoryFates),
  prompt: z.object({ domain: z.string() }),
  turns: z.array(z.object({ tokenIds: z.array(z.unknown()) })),
  end: z.object({ kind: z.string(), limit: z.string().optional(), stage: z.string().optional() }),
  reward: z.object({ total: z.number() }),
  advantage: z.number().optional(),
});

function toRow(step: number, json: unknown): TrajectoryRow | undefined {
  const { data } = rowSchema.safeParse(json);
  if (data === undefined) return undefined;
  const { id, groupId, sampleIndex, fate, prompt, turns, end, reward, advantage } = data;
  const detail = end.limit ?? end.stage;
  return {
    ...{ step, id, groupId, sampleIndex, fate },
    domain: prompt.domain,
    end: detail === undefined ? end.kind : `${end.kind}: ${detail}`,
    reward: reward.total,
    advantage: advantage ?? null,
    numTurns: turns.length,
    numTokens: turns.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
  };
}

function parseRecord(text: string): TrajectoryRecord | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return rowSchema.safeParse(json).success ? (json as TrajectoryRecord) : undefined;
  } catch {
    return undefined;
  }
}

function missing(step: number, id: string): RerollError {
  return new RerollError(
    "TRAJECTORY_NOT_FOUND",
    `Step ${step} has no trajectory ${id}. It may have been written anew when the run was resumed; go back to the list.`,
    { step, id },
  );
}

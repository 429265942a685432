/** The jobs that were submitted from here: a folder each, with what is needed to ask the scheduler about it. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { SubmittedJob } from "./launcher.ts";
import { type LauncherName, launchers } from "./table.ts";

/** A job as it is kept. */
interface StoredJob extends SubmittedJob {
  readonly launcher: LauncherName;
  /** When it was handed over, as ISO 8601. */
  readonly submittedAt: string;
}

const FILE = "job.json";

const schema = z.object({
  launcher: z.enum(Object.keys(launchers) as [LauncherName, ...LauncherName[]]),
  id: z.string(),
  name: z.string(),
  options: z.record(z.string(), z.string()),
  submittedAt: z.string(),
});

export function storeJob({ folder, ...job }: StoredJob): void {
  writeFileSync(join(folder, FILE), `${JSON.stringify(job, null, 2)}\n`);
}

/** All jobs of a folder of jobs, the newest first. */
export function listJobs(root: string): readonly StoredJob[] {
  if (!existsSync(root)) return [];
  const jobs = readdirSync(root).flatMap((name) => readJob(join(root, name)) ?? []);
  return jobs.sort((a, b) => (a.submittedAt < b.submittedAt ? 1 : -1));
}

/** A job by the name of its folder. */
export function findJob(root: string, name: string): StoredJob {
  const job = readJob(join(root, name));
  if (job !== undefined) return job;
  const known = listJobs(root).map(({ folder }) => folder.slice(root.length + 1));
  throw new RerollError(
    "JOB_NOT_FOUND",
    `There is no job ${JSON.stringify(name)} in ${root}. ${known.length === 0 ? "None was submitted from here." : `There are: ${known.join(", ")}.`}`,
  );
}

function readJob(folder: string): StoredJob | undefined {
  const file = join(folder, FILE);
  if (!existsSync(file)) return undefined;
  return { ...schema.parse(JSON.parse(readFileSync(file, "utf8"))), folder };
}

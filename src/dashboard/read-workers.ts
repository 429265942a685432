/** The workers of a run, from the file that the run keeps of them. */
import { join } from "node:path";
import { z } from "zod";
import type { WorkerFacts } from "../flow/worker-facts.ts";
import { runFiles } from "../tracking/run-record.ts";
import { readPlainJson } from "./open-plain-file.ts";

const MAX_BYTES = 4 << 20;

const role = z.object({
  role: z.enum(["trainer", "reference", "critic", "engine", "reward model"]),
  bytes: z.number(),
  isAsleep: z.boolean(),
});
const worker = z.object({
  name: z.string().max(200),
  runsIn: z.enum(["thread", "process", "machine", "server"]),
  device: z.string(),
  roles: z.array(role),
  peakBytes: z.number().nullable(),
});
const schema = z.object({ workers: z.array(worker) });

/** Empty for a run that has not said so, as runs of older versions. */
export async function readWorkers(folder: string): Promise<readonly WorkerFacts[]> {
  const { data } = schema.safeParse(await readPlainJson(join(folder, runFiles.workers), MAX_BYTES));
  return data?.workers ?? [];
}

/** `reroll runs`: what runs there are, and how they differ. */
import { join } from "node:path";
import { Command } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import { compareTable, listTable, runProgress } from "../../run/compare-runs.ts";
import { defaultRunsFolder } from "../../run/runs-folder.ts";
import { listRuns, type ReadRun, readMetrics, readRun } from "../../tracking/read-run.ts";
import { expectFolder } from "../expect-folder.ts";

/** The command, for the program to add. */
export const runsCommand = new Command("runs").description("List runs, or compare them.");

runsCommand
  .command("list", { isDefault: true })
  .description("List the runs of a folder, the newest first, with how far they are and what they earn.")
  .argument("[folder]", "where runs are (default: runs, or $REROLL_HOME/runs)")
  .option("--json", "print one line of JSON per run")
  .action(async (folder: string | undefined, { json }: { readonly json?: boolean }) => {
    if (folder !== undefined) expectFolder(folder);
    const listed = await listRuns(folder ?? defaultRunsFolder());
    const runs = await Promise.all(
      listed.map(async (run) => ({ ...run, ...runProgress((await readMetrics(run.folder)).values) })),
    );
    console.log(json === true ? runs.map((run) => JSON.stringify(run)).join("\n") : listTable(runs));
  });

runsCommand
  .command("compare")
  .description("Show where runs differ, and their last metrics.")
  .argument("<runs...>", "run folders, or names of runs")
  .action(async (runs: readonly string[]) => {
    console.log(compareTable(await Promise.all(runs.map(readOne))));
  });

/** A folder comes first; a name is that of a run in the default folder. */
async function readOne(named: string): Promise<ReadRun> {
  const run = (await readRun(named)) ?? (await readRun(join(defaultRunsFolder(), named)));
  if (run !== undefined) return run;
  throw new RerollError(
    "RUN_NOT_FOUND",
    `${named} holds no run: there is no run.json in it, nor in ${join(defaultRunsFolder(), named)}. Give run folders or names of runs, such as runs/first or first.`,
  );
}

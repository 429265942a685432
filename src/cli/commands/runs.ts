/** `reroll runs`: what runs there are, and how they differ. */
import { Command } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import { compareTable, listTable } from "../../run/compare-runs.ts";
import { defaultRunsFolder } from "../../run/runs-folder.ts";
import { listRuns, type ReadRun, readRun } from "../../tracking/read-run.ts";

/** The command, for the program to add. */
export const runsCommand = new Command("runs").description("List runs, or compare them.");

runsCommand
  .command("list", { isDefault: true })
  .description("List the runs of a folder, the newest first.")
  .argument("[folder]", "where runs are (default: runs, or $REROLL_HOME/runs)")
  .option("--json", "print one line of JSON per run")
  .action(async (folder: string | undefined, { json }: { readonly json?: boolean }) => {
    const runs = await listRuns(folder ?? defaultRunsFolder());
    console.log(json === true ? runs.map((run) => JSON.stringify(run)).join("\n") : listTable(runs));
  });

runsCommand
  .command("compare")
  .description("Show where runs differ, and their last metrics.")
  .argument("<folders...>", "run folders")
  .action(async (folders: readonly string[]) => {
    console.log(compareTable(await Promise.all(folders.map(readOne))));
  });

async function readOne(folder: string): Promise<ReadRun> {
  const run = await readRun(folder);
  if (run !== undefined) return run;
  throw new RerollError(
    "RUN_NOT_FOUND",
    `${folder} holds no run: it has no run.json. Give run folders, such as runs/first.`,
  );
}

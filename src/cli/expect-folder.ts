/** Refuses a folder of runs that a command names and that is not there. */
import { statSync } from "node:fs";
import { RerollError } from "../errors/reroll-error.ts";

/** Throws for what is no folder. The default folder is not asked for: it comes with the first run. */
export function expectFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new RerollError("RUN_NOT_FOUND", `${folder} is no folder. Give a folder of runs, or one run.`, { folder });
}

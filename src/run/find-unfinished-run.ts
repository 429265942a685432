/** The run that `--resume auto` goes on with. */
import { listRuns } from "../tracking/read-run.ts";
import { isResumable } from "./resumable.ts";

/** The folder of the newest run of a name. null where there is none, or it is finished, or has nothing to go on from. */
export async function findUnfinishedRun(root: string, name: string): Promise<string | null> {
  const newest = (await listRuns(root)).find(({ info }) => info.name === name);
  if (newest === undefined || newest.info.status === "finished" || !isResumable(newest.folder)) return null;
  return newest.folder;
}

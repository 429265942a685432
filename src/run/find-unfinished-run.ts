/** The run that `--resume auto` goes on with. */
import { listRuns } from "../tracking/read-run.ts";

/** The folder of the newest run of a name. null where there is none, or it is finished. */
export async function findUnfinishedRun(root: string, name: string): Promise<string | null> {
  const newest = (await listRuns(root)).find(({ info }) => info.name === name);
  return newest === undefined || newest.info.status === "finished" ? null : newest.folder;
}
